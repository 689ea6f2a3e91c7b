from __future__ import annotations

import re

from xuanzang.model.data.augmentation.pairs import Augmenter, Shares, augment, shared_spans
from xuanzang.model.data.augmentation.spans import kept_spans
from xuanzang.model.data.corpus import Pair

PAIRS = [
    Pair("我有一只猫。", "I have a cat."),
    Pair("打开 Firefox 的 3 个标签页", "Open 3 tabs of Firefox"),
    Pair("运行 make 三次", "Run make three times"),
]
WORDS = ["open", "file", "tab", "cat"]


def test_what_is_put_into_the_source_is_in_the_target_too() -> None:
    augmenter = Augmenter(WORDS, seed=0)
    for pair in PAIRS * 200:
        made = augmenter.copying(pair)
        assert made != pair
        added = re.findall(r"[\x21-\x7e]+", made.source)
        kept, wanted = kept_spans(made.source, made.target)
        assert kept == wanted, made
        assert all(part.strip(".:()") in made.target for part in added), made


def test_the_words_around_a_span_stay() -> None:
    augmenter = Augmenter(WORDS, seed=1)
    made = [augmenter.copying(PAIRS[0]) for _ in range(100)]
    assert sum("我有一只猫" in pair.source and "I have a cat" in pair.target for pair in made) > 80
    assert len(set(made)) > 80


def test_shared_spans_stand_once_on_both_sides() -> None:
    assert shared_spans(PAIRS[1]) == ["3", "Firefox"]
    assert shared_spans(Pair("make 和 make", "make and make")) == []
    assert shared_spans(Pair("版本 3", "30 versions")) == []


def test_corpora_have_the_sizes_asked_for_and_follow_the_weights() -> None:
    corpora = {"seen": PAIRS[:1] * 100, "unseen": PAIRS[1:2] * 100}
    shares = Shares(copying=0.5, passing=0.25, naming=0)
    made = augment(corpora, {"seen": 2.0, "unseen": 0.0}, shares, ("zh", "en"), "nfkc", seed=0)
    assert {name: len(pairs) for name, pairs in made.items()} == {"copying": 100, "passing": 50}
    assert set(made["passing"]) == {Pair("I have a cat.", "I have a cat.")}
    assert not any("Firefox" in pair.target for pair in made["copying"])
