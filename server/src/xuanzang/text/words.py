"""Word boundaries: between letters and digits there is one only in scripts without spaces."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from xuanzang.text.tokenizer import WORD_START, Tokenizer
from xuanzang.text.types import CONTINUES, OPENS, Variant

# Scripts that put no spaces between words: Thai, Lao, Tibetan, Burmese, Khmer, kana, Bopomofo, Han.
_EAST_ASIAN = (
    "\u3005-\u3007\u3040-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_UNSPACED = re.compile(f"[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff{_EAST_ASIAN}]")
# Those of them that put none between clauses either: kana, Bopomofo, Han.
_NEVER_SPACED = re.compile(f"[{_EAST_ASIAN}]")

# Marks that begin words and phrases, and marks that a space follows.
_APART_BEFORE = frozenset('#.$@~`"“‘«([-/')
_APART_AFTER = frozenset(".,;:!?)]")
_APOSTROPHES = frozenset("'’")
# After it a word begins without a space, so the pieces of that word are those within a word.
_OPENING = "("
_PIECES_AT_ONCE = 500
# Words or a part of one four times in a row, or one character ten times. The space lets the last word be without one.
_REPETITION = re.compile(r"(\S.{1,60}?)\1{3}|(\S)\2{9}", re.DOTALL)


def is_unspaced(character: str) -> bool:
    """Return whether a character is of a script that puts no spaces between words."""
    return bool(_UNSPACED.match(character))


def is_never_spaced(character: str) -> bool:
    """Return whether a character is of a script that puts no spaces between words or clauses, as Chinese."""
    return bool(_NEVER_SPACED.match(character))


def joins(character: str) -> bool:
    """Return whether a character is part of a word that goes on with the next such character."""
    return (character.isalnum() or character == "_") and not is_unspaced(character)


def begins_apart(phrase: str) -> bool:
    """Return whether a phrase's beginning must not be joined to the word before it: a letter, or as in ".NET"."""
    return joins(phrase[:1]) or phrase[:1] in _APART_BEFORE


def opens(text: str) -> bool:
    """Return whether a word may begin without a space after a text: after "(" and "。", not after a letter or ".".

    An apostrophe is in a word, as in "don't", unless a space is before it.
    """
    last, before = text[-1:], text[-2:-1]
    return not (joins(last) or last in _APART_AFTER or (last in _APOSTROPHES and not before.isspace()))


def is_spaced_from(before: str, after: str) -> bool:
    """Return whether a space belongs between the end of a word and the next one: "a" and "b", or "字" and "a"."""
    return before.isalnum() and after.isalnum() and (joins(before) or joins(after))


def is_boundary(text: str, position: int) -> bool:
    """Return whether no word of a text goes on over a position: "C" is none of "C#" and "C++", but one of "Ctrl+C"."""
    if not (0 < position < len(text) and joins(text[position - 1])):
        return True
    is_suffixed = text[position] == "#" and not joins(text[position + 1 : position + 2])
    return not (joins(text[position]) or is_suffixed or text.startswith("++", position))


def find_whole(text: str, phrase: str, start: int = 0) -> int:
    """Return where a phrase begins in a text, as whole words; -1 if nowhere."""
    found = text.find(phrase, start)
    while found >= 0 and not (is_boundary(text, found) and is_boundary(text, found + len(phrase))):
        found = text.find(phrase, found + 1)
    return found


class TargetPhrases:
    """Tokenises phrases that translations must hold. Immutable, so threads may share it."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, *, classes: npt.NDArray[np.int8] | None = None) -> None:
        """Classify the tokens, unless the `classes` of the same vocabulary are given."""
        self._tokenizer = tokenizer
        self._opening = tokenizer.encode(_OPENING)
        self.classes = classes if classes is not None else _classes(tokenizer, vocab_size)
        """Bits of each token that `PhraseAutomaton` needs, [vocab]."""

    def variants(self, phrase: str) -> tuple[Variant, ...]:
        """Return the ways to write a phrase without white space at its ends: after a space, and after a mark."""
        spaced = self._tokenizer.encode(phrase)
        guards_end = joins(phrase[-1:])
        found = []
        if self._writes(spaced, phrase):
            found.append(Variant(tuple(spaced), guards_start=False, guards_end=guards_end))
        opened = self._tokenizer.encode(_OPENING + phrase)
        within, opening = opened[len(self._opening) :], opened[: len(self._opening)]
        if opening == self._opening and within and self._writes(opened, _OPENING + phrase):
            found.append(Variant(tuple(within), guards_start=begins_apart(phrase), guards_end=guards_end))
        return tuple(found)

    def _writes(self, ids: Sequence[int], text: str) -> bool:
        return bool(ids) and self._tokenizer.unk_id not in ids and self._tokenizer.decode(ids) == text


def _classes(tokenizer: Tokenizer, vocab_size: int) -> npt.NDArray[np.int8]:
    classes = np.zeros(vocab_size, np.int8)
    # All pieces at once would leave holes in Python's heap, which the system does not get back.
    for start in range(0, vocab_size, _PIECES_AT_ONCE):
        some = range(start, min(start + _PIECES_AT_ONCE, vocab_size))
        classes[some.start : some.stop] = [_class_of(piece) for piece in tokenizer.pieces_of(some)]
    return classes


def _class_of(piece: str) -> int:
    text = piece.replace(WORD_START, " ")
    if text.startswith("<0x"):
        # A byte, perhaps of a letter.
        return CONTINUES
    # Control tokens are no text.
    if not text or (text.startswith("<") and text.endswith(">")):
        return 0
    return (CONTINUES if joins(text[0]) else 0) | (OPENS if opens(text) else 0)


def has_repetition(text: str) -> bool:
    """Return whether a part of a text follows itself three times over."""
    return _REPETITION.search(f"{text} ") is not None
