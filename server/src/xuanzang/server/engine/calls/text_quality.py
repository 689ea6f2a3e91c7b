"""Quality of whole texts: what shows only in the text, and the metrics. Runs in a thread of the tokenisers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xuanzang.server.engine.quality.assessment import with_flags
from xuanzang.server.engine.scheduling.requests.request import CallContext
from xuanzang.server.engine.text.codec import Segment
from xuanzang.server.engine.text.language_detection import LanguageDetector
from xuanzang.server.engine.types import Hypothesis, QualityFlag
from xuanzang.server.metrics import ModelMetrics

# Of less the detector knows too little.
_MIN_LETTERS = 40
_MIN_CONFIDENCE = 0.95


def assessed(
    texts: Sequence[Sequence[Segment]],
    answer: Sequence[Sequence[Hypothesis]],
    context: CallContext,
    detector: LanguageDetector | None,
) -> list[list[Hypothesis]]:
    """Complete the quality of the hypotheses of texts.

    Args:
        texts: Segments of each text.
        answer: Hypotheses of each text, best first.
        context: Context of the call.
        detector: Detector of languages; None to leave them unchecked.

    Returns:
        The same hypotheses, each with its quality; the best of each text is counted.
    """
    target = context.target_language or context.model.bundle.manifest.target_language_codes[0]
    language = target.lower().partition("-")[0]
    completed = [
        [_assessed(segments, hypothesis, language, detector) for hypothesis in hypotheses]
        for segments, hypotheses in zip(texts, answer, strict=True)
    ]
    for hypotheses in completed:
        _count(hypotheses[0], context.model.metrics)
    return completed


def _assessed(
    segments: Sequence[Segment], hypothesis: Hypothesis, language: str, detector: LanguageDetector | None
) -> Hypothesis:
    flags = set(_text_flags(segments, hypothesis, language, detector))
    return replace(hypothesis, quality=with_flags(hypothesis.quality, flags))


def _text_flags(
    segments: Sequence[Segment], hypothesis: Hypothesis, language: str, detector: LanguageDetector | None
) -> Iterator[QualityFlag]:
    if any(segment.is_forced_cut for segment in segments):
        yield QualityFlag.CUT
    if detector and hypothesis.token_count and _is_in_another_language(hypothesis.text, language, detector):
        yield QualityFlag.WRONG_LANGUAGE


def _is_in_another_language(text: str, language: str, detector: LanguageDetector) -> bool:
    if sum(map(str.isalpha, text)) < _MIN_LETTERS:
        return False
    likeliest = next(iter(detector.detect(text, [language])), None)
    if likeliest is None or likeliest.confidence < _MIN_CONFIDENCE:
        return False
    return likeliest.code.lower().partition("-")[0] != language


def _count(hypothesis: Hypothesis, metrics: ModelMetrics) -> None:
    quality = hypothesis.quality
    if quality is None:
        return
    if quality.acceptable_probability is not None:
        metrics.quality_probability.observe(quality.acceptable_probability)
    for flag in quality.flags:
        metrics.quality_flags[flag.value].inc()
