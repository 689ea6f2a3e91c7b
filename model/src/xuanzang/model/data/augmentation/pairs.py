"""Pairs made from pairs, which teach the model to keep placeholders, markup, links, names and numbers.

Corpora of software text often come with such spans removed, and everyday text has none. So the same random span is put
into both sides of existing pairs, and some targets become pairs of their own, which teaches the model to pass text that
is in the target language already.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import get_args

from xuanzang.model.data.augmentation.naming import NamingMaker, Topic, frames_of
from xuanzang.model.data.augmentation.spans import SpanMaker, copied_spans
from xuanzang.model.data.augmentation.terms import TermMaker
from xuanzang.model.data.corpus import Pair
from xuanzang.model.tokenizer import Normalization, Tokenizer, normalize

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
    return [span for span in found if all(len(_bounded(span).findall(text)) == 1 for text in pair)]


def _substitute(text: str, span: str, new: str) -> str:
    return _bounded(span).sub(lambda _match: new, text)


def _bounded(span: str) -> re.Pattern[str]:
    """Return a pattern that finds a span where it is not part of a longer word."""
    return re.compile(rf"(?<![A-Za-z0-9_]){re.escape(span)}(?![A-Za-z0-9_])")
