from __future__ import annotations

from pathlib import Path

import pytest

from xuanzang.model.evaluation.quality import measure
from xuanzang.model.evaluation.test_sets import count_key_words, missing_key_words, parse_key_words, read_test_set


def test_key_words_are_parted_by_semicolons_and_alternatives_by_slashes() -> None:
    assert parse_key_words("Beijing; movie/film ;") == (("Beijing",), ("movie", "film"))
    assert parse_key_words("") == ()


@pytest.mark.parametrize(
    ("key_words", "translation", "is_found"),
    [
        ("Beijing", "We go to beijing.", True),
        ("movie/film", "A film!", True),
        ("cat", "A category of cats.", False),
        ("1,200", "It costs 1,200 yuan.", True),
        ("20", "It costs 1200 yuan.", False),
        ("C++", "I write C++ code", True),
        ("北京", "我们去北京吧", True),
        ("ice cream", "an ice cream", True),
    ],
)
def test_an_alternative_is_found_as_whole_words_in_any_case(key_words: str, translation: str, is_found: bool) -> None:
    assert (missing_key_words(parse_key_words(key_words), translation) == []) == is_found


def test_found_key_words_are_counted_over_all_sentences() -> None:
    wanted = [parse_key_words("one; two"), (), parse_key_words("three/drei")]
    assert count_key_words(wanted, ["Two men", "", "drei"]) == (3, 2)


def test_a_fourth_column_of_a_test_set_has_key_words(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("北京\tBeijing\tplaces\tBeijing\n猫\tcat\tanimals\n", encoding="utf-8")
    pairs = read_test_set(path)
    evaluation = measure(pairs, ["Peking", "cat"], "en", "nfkc")
    assert evaluation.whole.key_words == (1, 0)
    assert evaluation.as_json()["key_words_found"] == 0
    assert "key_words" not in evaluation.groups["animals"].as_json()
