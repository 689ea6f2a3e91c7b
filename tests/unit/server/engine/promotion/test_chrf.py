from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from xuanzang.server.engine.promotion.chrf import chrf

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
