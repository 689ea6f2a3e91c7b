"""Quality of the hypotheses of sentences, and of texts of several sentences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.quality.flags import sentence_flags
from xuanzang.server.engine.quality.head import Estimator, SearchedSentence
from xuanzang.server.engine.types import Quality, QualityFlag


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceAssessor:
    """Assesses the hypotheses of one sentence, in the thread of a worker."""

    estimator: Estimator
    source: str
    """The sentence as the caller wrote it."""

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
