"""Pairs with words of the target in the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from xuanzang.model.data.augmentation.pairs import TermMaker
from xuanzang.model.data.corpus import Pair
from xuanzang.model.tokenizer import Tokenizer

WORDS = {"学校": "school", "学生": "student", "医院": "hospital", "图书馆": "library", "公园": "park"}
FRAMES = [("我去{}。", "I go to the {}."), ("这是{}吗？", "Is this the {}?"), ("{}很大", "The {} is big")]
PAIRS = [Pair(source.format(word), target.format(WORDS[word])) for word in WORDS for source, target in FRAMES] * 4


@pytest.fixture(scope="module")
def tokenizers() -> tuple[Tokenizer, Tokenizer]:
    tokenizer = Tokenizer(Path(__file__).parents[5] / "server" / "models" / "zh-en" / "4" / "source.spm")
    return tokenizer, tokenizer


def test_words_are_learned_from_the_pairs_in_both_directions(tokenizers: tuple[Tokenizer, Tokenizer]) -> None:
    pytest.importorskip("scipy")
    learned = TermMaker(PAIRS, tokenizers, seed=0).words
    assert {word: learned.get(word) for word in WORDS} == WORDS
    turned = TermMaker([Pair(*pair[::-1]) for pair in PAIRS], tokenizers, seed=0).words
    assert {turned.get(word) for word in WORDS.values()} == {*WORDS}


def test_a_target_word_stands_in_the_source_and_the_target_stays(tokenizers: tuple[Tokenizer, Tokenizer]) -> None:
    pytest.importorskip("scipy")
    maker = TermMaker(PAIRS, tokenizers, seed=0)
    made = list(maker.made([Pair("我去图书馆看书。", "I read in the library."), Pair("你好", "Hello")]))
    assert made == [Pair("我去 library 看书。", "I read in the library.")]
    [turned] = TermMaker([Pair(*pair[::-1]) for pair in PAIRS], tokenizers, seed=0).made([Pair("The park", "公园")])
    assert turned == Pair("The 公园", "公园")


def test_a_word_that_the_target_lacks_or_has_twice_stays(tokenizers: tuple[Tokenizer, Tokenizer]) -> None:
    pytest.importorskip("scipy")
    maker = TermMaker(PAIRS, tokenizers, seed=0)
    assert list(maker.made([Pair("公园", "garden"), Pair("公园", "park and park"), Pair("公园", "parks")])) == []
