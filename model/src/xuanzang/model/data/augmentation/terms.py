"""Sentences with some words replaced by target-language words, as a glossary does.

A model that has seen such sources copies the words and translates around them.

Source: Dinu et al. 2019, arXiv:1906.01105, who take the words from a dictionary; here they are learned from the pairs.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from xuanzang.model.data.corpus import CorpusError, Pair
from xuanzang.model.tokenizer import Tokenizer

_SPACE = "▁"
_UNSPACED = re.compile(r"[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]{2,}")
_MAX_TERMS = 2
_LEARNED_PAIRS = 200_000
_ROUNDS = 4
_MIN_PROBABILITY = 0.3
# Words of more than this share of the targets, such as "the", are in no glossary.
_MAX_SHARE = 0.25


class TermMaker:
    """Puts target words into sources; the same ones for the same seed."""

    def __init__(self, pairs: Sequence[Pair], tokenizers: tuple[Tokenizer, Tokenizer], seed: int) -> None:
        """Learn the correspondence of words.

        Args:
            tokenizers: Those of the sources and of the targets.

        Raises:
            CorpusError: The package scipy is not installed.
        """
        self._tokenizer = tokenizers[0]
        self._random = random.Random(seed)  # noqa: S311 - nothing secret
        self.words = _learned(pairs, tokenizers)
        """Target word by source word."""

    def made(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yield the pairs that have a known word, with one or two of the target's in its place."""
        for pair in pairs:
            known = [(word, self.words[word]) for word in self._words(pair.source) if word in self.words]
            found = [each for each in known if _occurs_once(pair, *each)]
            if found:
                source = pair.source
                for word, target in self._random.sample(found, min(len(found), self._random.randint(1, _MAX_TERMS))):
                    source = _replaced(source, word, target)
                yield Pair(source, pair.target)

    def _words(self, text: str) -> list[str]:
        pieces = self._tokenizer.pieces(self._tokenizer.encode(text))
        return list(dict.fromkeys(piece.removeprefix(_SPACE) for piece in pieces))


def _learned(pairs: Sequence[Pair], tokenizers: tuple[Tokenizer, Tokenizer]) -> Mapping[str, str]:
    """Return the target word of each source word, for words of one piece."""
    try:
        from xuanzang.model.data import alignment  # noqa: PLC0415 - scipy is optional
    except ImportError as error:
        raise CorpusError("term-share needs the package scipy: pip install 'scipy>=1.11'") from error
    chosen = pairs[:: max(1, len(pairs) // _LEARNED_PAIRS)]
    pieces = [tokenizer.pieces(range(len(tokenizer))) for tokenizer in tokenizers]
    matrices = []
    for tokenizer, texts in zip(tokenizers, zip(*chosen, strict=True), strict=True):
        ids = tokenizer.encode_all(texts)
        offsets = np.cumsum([0, *map(len, ids)])
        matrices.append(alignment.incidence(np.concatenate(ids).astype(np.int64), offsets, len(tokenizer)))
    source, target = matrices
    probabilities = alignment.translation_probabilities(source, target, rounds=_ROUNDS)
    rare = np.asarray(target.sum(axis=0)) <= _MAX_SHARE * len(chosen)
    words: dict[str, str] = {}
    for number, piece in enumerate(pieces[0]):
        for likeliest in alignment.best(probabilities, number, 1).tolist() if _is_word(piece) else ():
            likely = probabilities[number, likeliest] >= _MIN_PROBABILITY
            if likely and rare[likeliest] and _is_word(pieces[1][likeliest]):
                words[piece.removeprefix(_SPACE)] = pieces[1][likeliest].removeprefix(_SPACE)
    return words


def _is_word(piece: str) -> bool:
    """Return whether a piece seems to be a whole word."""
    bare = piece.removeprefix(_SPACE)
    return bool(_UNSPACED.fullmatch(bare)) or (piece != bare and bare.isalpha() and len(bare) > 2)


def _occurs_once(pair: Pair, word: str, target: str) -> bool:
    return len(_bounded(word).findall(pair.source)) == 1 and len(_bounded(target).findall(pair.target)) == 1


def _replaced(text: str, word: str, target: str) -> str:
    """Put a word in the place of another, apart from letters on both sides, as the server does."""
    match = _bounded(word).search(text)
    if match is None:  # another word that was put in has held it
        return text
    before, after = text[: match.start()], text[match.end() :]
    spaced = not (_UNSPACED.fullmatch(target))
    left = " " if before[-1:].isalnum() and (spaced or before[-1:].isascii()) else ""
    right = " " if after[:1].isalnum() and (spaced or after[:1].isascii()) else ""
    return f"{before}{left}{target}{right}{after}"


def _bounded(word: str) -> re.Pattern[str]:
    """Return a pattern that finds a word; one with spaces around it not within a longer one."""
    bare = re.escape(word)
    return re.compile(bare if _UNSPACED.fullmatch(word) else rf"(?<![^\W\d_]){bare}(?![^\W\d_])")
