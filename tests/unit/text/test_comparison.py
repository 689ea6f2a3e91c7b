from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from xuanzang.text.comparison import chrf, compare

TEXTS = st.text(alphabet="ab 猫狗。\n", max_size=12)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5)


@given(pairs=PAIRS)
def test_chrf_is_that_of_sacrebleu(pairs: list[tuple[str, str]]) -> None:
    texts, references = zip(*pairs, strict=True)
    expected = CHRF().corpus_score(texts, [references]).score
    assert chrf(texts, references) == pytest.approx(expected, abs=1e-9)


def test_chrf_of_real_sentences_is_that_of_sacrebleu() -> None:
    pairs = [
        ("I have a cat.", "I have got one cat."),
        ("The teacher has ten birds.", "The teacher has ten birds."),
        ("Nothing alike", "全然不同"),
    ]
    for text, reference in pairs:
        assert chrf([text], [reference]) == pytest.approx(CHRF().sentence_score(text, [reference]).score)
    texts, references = zip(*pairs, strict=True)
    assert chrf(texts, references) == pytest.approx(CHRF().corpus_score(texts, [references]).score)


def test_equal_translations_agree_in_everything() -> None:
    for texts in (["a cat", "a dog"], ["a"], [""], [" "]):
        agreement = compare(texts, texts)
        assert (agreement.exact_match, agreement.chrf, agreement.length_ratio) == (1.0, 100.0, 1.0)


def test_other_translations_are_counted_measured_and_weighed() -> None:
    agreement = compare(["a cat", "dogs"], ["a cat", "two dogs"])
    assert agreement.exact_match == 0.5
    assert agreement.length_ratio == 9 / 13
    assert agreement.chrf == chrf(["a cat", "dogs"], ["a cat", "two dogs"])


def test_translations_of_which_one_side_is_empty_have_nothing_in_common() -> None:
    assert compare([""], ["four"]).length_ratio == 0
    assert compare(["four"], [""]).length_ratio == 4
    assert compare(["four"], [""]).chrf == 0
