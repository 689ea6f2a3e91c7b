"""Tokenisations of phrases that translations must hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from xuanzang.text.words import TargetPhrases, opens

PIECES = ["<unk>", "\u2581(", "\u2581a", "a", "b", "\u2581"]


class Letters:
    """A tokeniser of a few letters."""

    unk_id = 0

    def encode(self, text: str) -> list[int]:
        found = [PIECES.index("\u2581" + text[0]) if "\u2581" + text[0] in PIECES else 0]
        return found + [PIECES.index(letter) if letter in PIECES else 0 for letter in text[1:]]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(PIECES[each] for each in ids).replace("\u2581", "")

    def pieces_of(self, token_ids: Iterable[int]) -> list[str]:
        return [PIECES[each] for each in token_ids]


def test_a_phrase_has_the_tokens_of_a_word_and_those_after_a_mark() -> None:
    phrases = TargetPhrases(cast("Any", Letters()), len(PIECES))
    assert [variant.ids for variant in phrases.variants("ab")] == [(2, 4), (3, 4)]
    assert [variant.guards_start for variant in phrases.variants("ab")] == [False, True]


def test_a_phrase_with_unknown_characters_cannot_be_written() -> None:
    phrases = TargetPhrases(cast("Any", Letters()), len(PIECES))
    assert phrases.variants("ax") == ()


def test_no_phrase_begins_behind_the_apostrophe_of_a_word() -> None:
    assert not opens("'")
    assert not opens("n’")
    assert opens(" '")
    assert opens("(")
