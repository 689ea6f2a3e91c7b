from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from xuanzang.server.engine.errors import ModelStateError
from xuanzang.server.engine.promotion.gate import MAX_BYTES, MAX_CHARACTERS, MAX_PAIRS, chrf, compare, read_golden_set


def test_lines_are_sources_and_references(tmp_path: Path) -> None:
    (tmp_path / "zh-en.tsv").write_bytes("我有一只猫。\tI have a cat.\r\n\n你好。\t Hello. \n".encode())
    golden = read_golden_set(tmp_path, "zh-en")
    assert golden.sources == ("我有一只猫。", "你好。")
    assert golden.references == ("I have a cat.", " Hello. ")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "must have 1 to 1000 lines, has 0"),
        (b"a\tb\n" * (MAX_PAIRS + 1), "must have 1 to 1000 lines, has 1001"),
        (b"a\tb\na\n", "line 2 of the golden set zh-en.tsv must be SOURCE<tab>REFERENCE"),
        (b"a\tb\tc\n", "line 1 of"),
        (b"\n\na\t \n", "line 3 of"),
        (b"a\t" + b"b" * (MAX_CHARACTERS + 1), "each of 1 to 2000 characters"),
        (b"\xff\tb\n", "is not UTF-8"),
        (b"x" * (MAX_BYTES + 1), "has more than 1048576 bytes"),
    ],
)
def test_a_golden_set_that_is_not_valid_is_refused_with_the_limit(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "zh-en.tsv").write_bytes(content)
    with pytest.raises(ModelStateError, match=reason):
        read_golden_set(tmp_path, "zh-en")


def test_what_is_no_golden_set_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tsv")
    (tmp_path / "link.tsv").symlink_to("/etc/hostname")
    reasons = {"missing": "is missing", "pipe": "is not a regular file", "link": "outside"}
    for name, reason in reasons.items():
        with pytest.raises(ModelStateError, match=reason):
            read_golden_set(tmp_path, name)
    with pytest.raises(ModelStateError, match="without --golden-sets"):
        read_golden_set(None, "zh-en")


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
