"""Quality of whole texts: what shows only in the text, and the metrics. Runs in a thread of the tokenisers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

from xuanzang.server.engine.quality import with_flags
from xuanzang.server.engine.scheduling.request import CallContext
from xuanzang.server.engine.types import Hypothesis, QualityFlag
from xuanzang.server.metrics import ModelMetrics
from xuanzang.text.codec import Segment
from xuanzang.text.language_codes import primary
from xuanzang.text.language_detection import LanguageChoice, LanguageDetector, read
from xuanzang.text.types import Reading, TextKind

# Of less the detector knows too little.
_MIN_LETTERS = 40
_MIN_CONFIDENCE = 0.95


def assessed(
    texts: Sequence[Sequence[Segment]],
    answer: Sequence[Sequence[Hypothesis]],
    context: CallContext,
    detector: LanguageDetector | None,
    *,
    has_markup: bool = False,
) -> list[list[Hypothesis]]:
    """Complete the quality of the hypotheses of texts, best first; without a detector languages are left unchecked.

    `has_markup`: whether the hypotheses have tags, which are in no language; segments have none.
    """
    manifest = context.model.bundle.manifest
    languages = LanguageChoice(
        sources=(context.source_language or manifest.source_language_codes[0],),
        target=context.target_language or manifest.target_language_codes[0],
    )
    completed = [
        _completed(segments, hypotheses, languages, detector, has_markup=has_markup)
        for segments, hypotheses in zip(texts, answer, strict=True)
    ]
    for hypotheses in completed:
        _count(hypotheses[0], context.model.metrics)
    return completed


def _completed(
    segments: Sequence[Segment],
    hypotheses: Sequence[Hypothesis],
    languages: LanguageChoice,
    detector: LanguageDetector | None,
    *,
    has_markup: bool,
) -> list[Hypothesis]:
    """Complete the quality of the hypotheses of one text."""
    # Segments of one block have the spaces between them; blocks have tags there.
    source = ("\n" if has_markup else "").join(segment.text for segment in segments)
    # Text that is copied is in no wrong language.
    detector = detector if hypotheses[0].token_count else None
    reading = read(source, detector, languages) if detector else None
    flags = set(_source_flags(segments, reading))
    is_likely = reading is None or reading.is_likely
    detector = None if has_markup else detector
    return [
        _assessed(each, source, flags.union(_target_flags(each, languages, detector)), is_likely=is_likely)
        for each in hypotheses
    ]


def _assessed(hypothesis: Hypothesis, source: str, flags: Set[QualityFlag], *, is_likely: bool) -> Hypothesis:
    quality = with_flags(hypothesis.quality, flags)
    if not is_likely or QualityFlag.SOURCE_LANGUAGE in flags or hypothesis.text.strip() == source.strip():
        # The estimate is of translations, and from a source language.
        quality = replace(quality, acceptable_probability=None)
    return replace(hypothesis, quality=quality)


def _source_flags(segments: Sequence[Segment], reading: Reading | None) -> Iterator[QualityFlag]:
    if any(segment.is_forced_cut for segment in segments):
        yield QualityFlag.CUT
    if reading:
        is_target = reading.kind is TextKind.COPIED and reading.confidence
        if reading.kind is TextKind.UNSERVED or is_target or reading.is_doubtful:
            yield QualityFlag.SOURCE_LANGUAGE


def _target_flags(
    hypothesis: Hypothesis, languages: LanguageChoice, detector: LanguageDetector | None
) -> Iterator[QualityFlag]:
    if detector and _is_in_another_language(hypothesis.text, primary(languages.target), detector):
        yield QualityFlag.WRONG_LANGUAGE


def _is_in_another_language(text: str, language: str, detector: LanguageDetector) -> bool:
    if sum(map(str.isalpha, text)) < _MIN_LETTERS:
        return False
    likeliest = next(iter(detector.detect(text, [language]).languages), None)
    return likeliest is not None and likeliest.confidence >= _MIN_CONFIDENCE and likeliest.code != language


def _count(hypothesis: Hypothesis, metrics: ModelMetrics) -> None:
    quality = hypothesis.quality
    if quality is None:
        return
    if quality.acceptable_probability is not None:
        metrics.quality_probability.observe(quality.acceptable_probability)
    for flag in quality.flags:
        metrics.quality_flags[flag.value].inc()
