"""Phrases of the target language as the tokens that write them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xuanzang.server.engine.text.tokenizer import WORD_START, Tokenizer
from xuanzang.server.engine.text.words import begins_apart, joins, opens
from xuanzang.server.engine.variants import CONTINUES, OPENS, Variant

# After it a word begins without a space, so the pieces of that word are those within a word.
_OPENING = "("


class TargetPhrases:
    """Tokenises phrases that translations must hold. Immutable, so threads may share it."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        """Classify the tokens of a vocabulary.

        Args:
            tokenizer: Tokeniser of the target.
            vocab_size: Number of tokens.
        """
        self._tokenizer = tokenizer
        self._opening = tokenizer.encode(_OPENING)
        self.classes = np.array([_class_of(tokenizer.piece_of(token)) for token in range(vocab_size)], np.int8)
        """Bits of each token that `PhraseAutomaton` needs, [vocab]."""

    def variants(self, phrase: str) -> tuple[Variant, ...]:
        """Return the ways to write a phrase: after a space, and after a mark without one.

        Args:
            phrase: Phrase in the target language, without white space at its ends.

        Returns:
            Its variants; none if the model cannot write it.
        """
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


def _class_of(piece: str) -> int:
    text = piece.replace(WORD_START, " ")
    if text.startswith("<0x"):
        # A byte, perhaps of a letter.
        return CONTINUES
    # Control tokens are no text.
    if not text or (text.startswith("<") and text.endswith(">")):
        return 0
    return (CONTINUES if joins(text[0]) else 0) | (OPENS if opens(text) else 0)
