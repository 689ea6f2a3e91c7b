"""Quality of a translation: flags for suspicious signs, and the probability that it is acceptable."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Protocol

from xuanzang.server.bundles.quality_head import Feature, FlagLimits, QualityHead
from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.types import Quality, QualityFlag
from xuanzang.text.comparison import copied_share, has_untranslated_part, is_copy, loses_name, loses_number
from xuanzang.text.offsets import Span, nfkc
from xuanzang.text.words import has_repetition

# A source token that is translated gets about 1 in total; see docs/quality.md.
_LOW_ATTENTION = 0.4
# A word below it was really left out in about three of four held-out sentences that were read.
_OMITTED_ATTENTION = 0.15
_LONG_WORD = re.compile(r"[A-Za-zÀ-ɏͰ-ӿ]{5,}")
# "一" begins the counted forms of function words.
_CHINESE_WORD = re.compile("[\u3400-\u4dff\u4e01-\u9fff]{2,}")
MAX_DEVIATIONS = 4.0
"""Standardised features are limited to this far from 0: of anything stranger the pairs of the fit say nothing."""
# Beyond it the probability is 0 or 1 in double precision.
_MAX_LOGIT = 35.0
MIN_RATED_TOKENS = 6
"""Minimum source tokens for meaningful ratios."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedSentence:
    """A sentence and one hypothesis of its search."""

    source: str
    """As the caller wrote it; not empty."""
    target: str
    source_tokens: int
    """End token counted, at least 1."""
    token_scores: Sequence[float]
    """Log-probability of each target token, end token included, nats; at least one."""
    alignment: Sequence[int]
    """Source position that each target token attends to most."""
    attention: Sequence[float]
    """Attention that each source position got from all target tokens, [source]."""
    finished: bool = True
    spans: Sequence[Span] = ()
    """Characters of `source` that each source token stands for, [source]; none if unknown."""


def omits_word(sentence: SearchedSentence) -> bool:
    """Return whether a word of the source got so little attention that the translation probably leaves it out.

    A word has five letters or more and the mean attention of its tokens, or is a token of two Chinese characters or
    more: shorter ones are often function words, which many languages lack.
    """
    source, attention = sentence.source, dict[int, list[float]]()
    word_of = {place: found.start() for found in _LONG_WORD.finditer(source) for place in range(*found.span())}
    for (start, end), received in zip(sentence.spans, sentence.attention, strict=False):
        is_word = bool(_CHINESE_WORD.fullmatch(source[start:end].strip()))
        for word in {start} if is_word else {word_of[place] for place in range(start, end) if place in word_of}:
            attention.setdefault(word, []).append(received)
    return any(sum(each) / len(each) < _OMITTED_ATTENTION for each in attention.values())


def low_attention_share(sentence: SearchedSentence) -> float:
    """Return the share of source tokens, end token left out, that got little attention."""
    attention = sentence.attention[: sentence.source_tokens - 1]
    return sum(1 for received in attention if received < _LOW_ATTENTION) / max(len(attention), 1)


def _deviation(scores: Sequence[float]) -> float:
    mean = sum(scores) / len(scores)
    return math.sqrt(sum((score - mean) ** 2 for score in scores) / len(scores))


FEATURES: Mapping[str, Callable[[SearchedSentence], float]] = MappingProxyType(
    {
        # Target tokens: mean probability; standard deviation and minimum of the log-probabilities.
        "mean_probability": lambda each: sum(map(math.exp, each.token_scores)) / len(each.token_scores),
        "score_deviation": lambda each: _deviation(each.token_scores),
        "min_score": lambda each: min(each.token_scores),
        # Lengths as logarithms; tokens and characters of the source together tell common words from rare ones.
        "source_tokens": lambda each: math.log(each.source_tokens),
        "source_characters": lambda each: math.log(len(each.source)),
        "character_ratio": lambda each: math.log((len(each.target) + 1) / (len(each.source) + 1)),
        "token_ratio": lambda each: math.log(len(each.token_scores) / each.source_tokens),
        "low_attention_share": low_attention_share,
        # Source tokens that a target token attends to most; target tokens that attend to one before the last one's.
        "aligned_share": lambda each: len(set(each.alignment)) / each.source_tokens,
        "backward_share": lambda each: (
            sum(1 for before, after in pairwise(each.alignment) if after < before) / len(each.alignment)
        ),
        "copied_share": lambda each: copied_share(each.source, each.target),
    }
)


def unknown_features(head: QualityHead) -> list[str]:
    """Return the names of a head's features that this server cannot measure."""
    return [feature.name for feature in head.features if feature.name not in FEATURES]


def standardised(value: float, mean: float, deviation: float) -> float:
    """Return a feature in standard deviations from its mean, limited."""
    return min(max((value - mean) / deviation, -MAX_DEVIATIONS), MAX_DEVIATIONS)


class Estimator(Protocol):
    """Estimator of the quality of translations."""

    @property
    def limits(self) -> FlagLimits:
        """Usual bounds."""

    def probability(self, sentence: SearchedSentence) -> float:
        """Return the probability that a translation is acceptable."""


class QualityEstimator:
    """Estimates with one head. Immutable, so threads may share it."""

    def __init__(self, head: QualityHead) -> None:
        self.limits = head.limits
        self._intercept = head.intercept
        self._terms: list[tuple[Feature, Callable[[SearchedSentence], float]]] = [
            (feature, FEATURES[feature.name]) for feature in head.features
        ]

    def probability(self, sentence: SearchedSentence) -> float:
        """Estimate the probability that a translation is acceptable."""
        logit = self._intercept + sum(self._contributions(sentence))
        return 1 / (1 + math.exp(-min(max(logit, -_MAX_LOGIT), _MAX_LOGIT)))

    def _contributions(self, sentence: SearchedSentence) -> Iterator[float]:
        for feature, measured in self._terms:
            value = standardised(measured(sentence), feature.mean, feature.deviation)
            yield value * (feature.weight + value * feature.square_weight)


def sentence_flags(sentence: SearchedSentence, limits: FlagLimits) -> Iterator[QualityFlag]:
    """Yield the flags that apply, each at most once."""
    source, target = map(nfkc, (sentence.source, sentence.target))
    if has_repetition(target) and not has_repetition(source):
        yield QualityFlag.REPETITION
    if sentence.source_tokens >= MIN_RATED_TOKENS:
        ratio = len(sentence.token_scores) / sentence.source_tokens
        if not limits.min_token_ratio <= ratio <= limits.max_token_ratio:
            yield QualityFlag.LENGTH_RATIO
        if low_attention_share(sentence) > limits.max_low_attention_share or omits_word(sentence):
            yield QualityFlag.LOW_COVERAGE
    if has_untranslated_part(source, target) or is_copy(sentence.source, sentence.target):
        yield QualityFlag.UNTRANSLATED
    if not sentence.finished:
        yield QualityFlag.TRUNCATED
    if loses_number(source, target):
        yield QualityFlag.NUMBER_LOST
    if loses_name(source, target):
        yield QualityFlag.NAME_LOST


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceAssessor:
    """Assesses the hypotheses of one sentence, in the thread of a worker."""

    estimator: Estimator
    source: str
    """The sentence as the caller wrote it."""
    spans: Sequence[Span] = ()
    """Characters of the sentence that each source token stands for; none if the model reads another sentence."""

    def assess(self, sentence: Sentence, found: TargetHypothesis, target: str) -> Quality | None:
        """Return how far to trust a hypothesis; None if it was searched without details."""
        details = found.details
        if details is None or not details.scores:
            return None
        searched = SearchedSentence(
            source=self.source,
            target=target,
            source_tokens=len(sentence.source_ids),
            token_scores=details.scores,
            alignment=details.alignment,
            attention=details.attention,
            finished=found.finished,
            spans=self.spans,
        )
        flags = set(sentence_flags(searched, self.estimator.limits))
        return Quality(acceptable_probability=self.estimator.probability(searched), flags=_in_order(flags))


def combined(sentences: Iterable[Quality | None]) -> Quality | None:
    """Return the quality of a text of several sentences.

    A text can be acceptable only if its least probable sentence is, so that sentence's probability is the text's: the
    product would be right if faults were independent, and would call every long text hopeless.
    """
    known = [quality for quality in sentences if quality is not None]
    if not known:
        return None
    probabilities = [each.acceptable_probability for each in known if each.acceptable_probability is not None]
    flags = {flag for each in known for flag in each.flags}
    return Quality(acceptable_probability=min(probabilities, default=None), flags=_in_order(flags))


def with_flags(quality: Quality | None, flags: Iterable[QualityFlag]) -> Quality:
    """Return a quality with more flags."""
    quality = quality or Quality()
    return replace(quality, flags=_in_order({*quality.flags, *flags}))


def _in_order(flags: set[QualityFlag]) -> tuple[QualityFlag, ...]:
    return tuple(flag for flag in QualityFlag if flag in flags)
