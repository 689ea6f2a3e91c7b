"""Pairs made from pairs, which teach the model to keep placeholders, markup, links, names and numbers.

Corpora of software text often come with such spans removed, and everyday text has none. So the same random span is put
into both sides of existing pairs, and some targets become pairs of their own, which teaches the model to pass text that
is in the target language already.

Sources with some words replaced by target-language words, as a glossary does, teach it to copy these and to translate
around them. Source: Dinu et al. 2019, arXiv:1906.01105, who take the words from a dictionary; here they are learned
from the pairs.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import get_args

import numpy as np

from xuanzang.model.data.augmentation.naming import NamingMaker, Topic, frames_of
from xuanzang.model.data.augmentation.spans import SpanMaker, copied_spans
from xuanzang.model.data.corpus import CorpusError, Pair
from xuanzang.model.tokenizer import Normalization, Tokenizer, normalize

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


_WORD = re.compile(r"[A-Za-z][\w.-]*\w", re.ASCII)
_NUMBER = re.compile(r"\d[\d.,]*", re.ASCII)
_FINAL = re.compile(r"[\s。.!?！？:：;；]*$")
_LOWERCASE_WORD = re.compile(r"\b[a-z]{3,9}\b")
_WORDS = 5000
# Not every pair has a word that is known to be a translation of one in the target.
_DRAWS_PER_TERM = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Pairs to make, for each real pair of an epoch."""

    copying: float
    """Pairs with the same span in both sides."""
    passing: float
    """Pairs with the target on both sides."""
    naming: float
    """Chinese and English sentences about names, dates, numbers and sums of money."""
    numbers: float = 0.0
    """Chinese and English sentences about amounts, dates, shares and measurements."""
    terms: float = 0.0
    """Pairs with target words in the source."""


def augment(
    corpora: Mapping[str, Sequence[Pair]],
    weights: Mapping[str, float],
    shares: Shares,
    languages: tuple[str, str],
    normalization: Normalization,
    *,
    seed: int,
    tokenizers: tuple[Tokenizer, Tokenizer] | None = None,
) -> dict[str, list[Pair]]:
    """Make the corpora "copying", "passing", "naming", "numbers" and "terms".

    Args:
        weights: Uses of each corpus per epoch; pairs are drawn in proportion.
        shares: Sizes; a corpus of size 0 is not made.
        languages: Source and target language; naming and numbers take zh and en.
        normalization: Unicode form of the sources.
        tokenizers: Those of the sources and of the targets, which terms need.

    Returns:
        Pairs of each corpus made.
    """
    pairs = [pair for corpus in corpora.values() for pair in corpus]
    pair_weights = [weights[name] for name, corpus in corpora.items() for _ in corpus]
    augmenter = Augmenter(_words(pairs), seed)

    def draw(share: float) -> list[Pair]:
        return augmenter.choose(pairs, pair_weights, round(share * sum(pair_weights)))

    made = {
        "copying": [augmenter.copying(pair) for pair in draw(shares.copying)],
        "passing": [Pair(normalize(pair.target, normalization), pair.target) for pair in draw(shares.passing)],
    }
    for topic in get_args(Topic):
        if share := getattr(shares, topic):
            made[topic] = list(_sentences(topic, draw(share), languages, normalization, seed))
    if shares.terms and tokenizers:
        made["terms"] = _terms(draw(_DRAWS_PER_TERM * shares.terms), pairs, tokenizers, seed)
    return {name: corpus for name, corpus in made.items() if corpus}


class Augmenter:
    """Generator of pairs, the same ones for the same seed."""

    def __init__(self, words: Sequence[str], seed: int) -> None:
        """Take the words that spans are made of.

        Args:
            words: Words of the target language.
        """
        self._random = random.Random(seed)  # noqa: S311 - nothing secret
        self._spans = SpanMaker(self._random, words)

    def copying(self, pair: Pair) -> Pair:
        """Return the pair with a random span in both sides: in place of a shared one, around it, or next to it."""
        shared = shared_spans(pair)
        if shared and self._random.random() < 0.8:
            return self._replace(pair, self._random.choice(shared))
        return self._random.choice(self._ADDITIONS)(self, pair)

    def choose(self, pairs: Sequence[Pair], weights: Sequence[float], count: int) -> list[Pair]:
        """Draw pairs with replacement, in proportion to their weights."""
        return self._random.choices(pairs, weights, k=count)

    def _replace(self, pair: Pair, span: str) -> Pair:
        if _NUMBER.fullmatch(span) and self._random.random() < 0.8:
            new = self._spans.number()
        elif self._random.random() < 0.3:
            opening, closing = self._spans.marks()
            new = f"{opening}{span}{closing}"
        else:
            new = self._spans.any()
        return Pair(*(_substitute(text, span, new) for text in pair))

    def _end(self, pair: Pair) -> Pair:
        """Put a span before the final punctuation, with or without a space in Chinese."""
        span, left = self._spans.any(), self._random.choice((" ", "", ": ", " ("))
        right = ")" if left == " (" else ""
        source, target = (_FINAL.split(text, maxsplit=1)[0] for text in pair)
        ends = [text[len(body) :] for text, body in zip(pair, (source, target), strict=True)]
        return Pair(f"{source}{left}{span}{right}{ends[0]}", f"{target}{left or ' '}{span}{right}{ends[1]}")

    def _begin(self, pair: Pair) -> Pair:
        span, after = self._spans.any(), self._random.choice((": ", " - ", " "))
        return Pair(*(f"{span}{after}{text}" for text in pair))

    def _enclose(self, pair: Pair) -> Pair:
        opening, closing = self._spans.marks()
        return Pair(*(f"{opening}{text}{closing}" for text in pair))

    def _list(self, pair: Pair) -> Pair:
        mark = self._random.choice((f"{self._random.randint(1, 20)}. ", "- ", "* ", "# ", "> "))
        return Pair(*(f"{mark}{text}" for text in pair))

    def _only_span(self, _pair: Pair) -> Pair:
        span = self._spans.any()
        return Pair(span, span)

    _ADDITIONS: tuple[Callable[[Augmenter, Pair], Pair], ...] = (
        (_end,) * 8
        + (_begin,) * 4
        + (_enclose,) * 4
        + (
            _list,
            _only_span,
        )
    )


def _terms(
    drawn: Sequence[Pair], pairs: Sequence[Pair], tokenizers: tuple[Tokenizer, Tokenizer], seed: int
) -> list[Pair]:
    """Return a pair with terms for every few pairs drawn, as far as they have any."""
    made = TermMaker(pairs, tokenizers, seed).made(drawn)
    return list(islice(made, len(drawn) // _DRAWS_PER_TERM))


def _sentences(
    topic: Topic, quotations: Sequence[Pair], languages: tuple[str, str], normalization: Normalization, seed: int
) -> Iterator[Pair]:
    """Yield as many pairs as there are quotations to choose from."""
    written = ("zh", "en").index(languages[1])
    chosen = [pair if written else Pair(*pair[::-1]) for pair in quotations]
    maker = NamingMaker(random.Random(seed), chosen, frames_of(topic))  # noqa: S311 - nothing secret
    for _ in quotations:
        chinese, english = maker.pair(written)
        source, target = (chinese, english) if written else (english, chinese)
        yield Pair(normalize(source, normalization), target)


def _words(pairs: Sequence[Pair]) -> list[str]:
    """Return common words of the target language, each once."""
    step = max(1, len(pairs) // (4 * _WORDS))
    found = dict.fromkeys(word for pair in pairs[::step] for word in _LOWERCASE_WORD.findall(pair.target))
    return list(found)[:_WORDS] or ["name"]


def shared_spans(pair: Pair) -> list[str]:
    """Return the words in Latin letters and the spans to be kept that stand exactly once in either side."""
    found = dict.fromkeys((*copied_spans(pair.source), *_WORD.findall(pair.source)))
    return [span for span in found if all(len(_delimited(span).findall(text)) == 1 for text in pair)]


def _substitute(text: str, span: str, new: str) -> str:
    return _delimited(span).sub(lambda _match: new, text)


def _delimited(span: str) -> re.Pattern[str]:
    """Return a pattern that finds a span where it is not part of a longer word."""
    return re.compile(rf"(?<![A-Za-z0-9_]){re.escape(span)}(?![A-Za-z0-9_])")
