"""Translations in one process: frozen values with the names that the SDK gives them, made of the engine's."""

from __future__ import annotations

import dataclasses
from ctypes import c_float
from dataclasses import dataclass
from typing import Any

from xuanzang.server.engine.errors import EngineError
from xuanzang.server.engine.types import FinishReason, Quality, ServedModel
from xuanzang.server.engine.types import Hypothesis as FoundHypothesis
from xuanzang.text.language_detection import DetectedLanguage
from xuanzang.text.types import GlossaryMatch, TokenDetail
from xuanzang.values.models import DecodingDefaults, Model
from xuanzang.values.provenance import Pivot, Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One way to translate a text."""

    text: str
    """The text in the target language."""
    score: float | None
    """Length-normalised log-probability in nats, at most 0; None unless `return_scores` is set."""
    token_count: int
    """Number of target tokens, end tokens counted; 0 for texts that are answered unchanged."""
    finish_reason: FinishReason
    """Reason why the search stopped."""
    tokens: tuple[TokenDetail, ...] = ()
    """Tokens in the order of the text, end tokens included; empty unless `token_details` is set."""
    quality: Quality | None = None
    """Quality estimate; None unless `return_quality` is set."""
    lost_placeholders: tuple[str, ...] = ()
    """Placeholders that the translation lost, so that `text` is the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The translation of one text."""

    hypotheses: tuple[Hypothesis, ...]
    """One or more, best first."""
    model: str
    """Name of the model that translated."""
    model_version: str
    """Version of that model, such as "1"."""
    provenance: Provenance | None = None
    """Provenance; None unless `return_provenance` is set."""
    detected_language: str = ""
    """Language of the text, spelled as in `list_models`, if `source_language` is not set: the detected one or, where
    undetectable, the one of its translation. Else empty."""
    detected_language_confidence: float | None = None
    """Probability of that language, 0 to 1; None if it was not detected."""
    glossary_matches: tuple[GlossaryMatch, ...] = ()
    """Terms and protected texts that occur in the text, in its order."""
    pivot: Pivot | None = None
    """First of two models, if the text was translated through another language; `model` is then the second."""

    @property
    def text(self) -> str:
        """Text of the best hypothesis."""
        return self.hypotheses[0].text


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedTranslation:
    """Result of one text of a stream: a translation, or an error of this text alone."""

    index: int
    """Position of the text in the iterable, counted from 0."""
    source: str
    """The text in the source language."""
    result: Translation | EngineError
    """The translation, or the error instead of one."""

    @property
    def error(self) -> EngineError | None:
        """The error, or None if there is a translation."""
        return self.result if isinstance(self.result, EngineError) else None

    @property
    def translation(self) -> Translation:
        """The translation.

        Raises:
            EngineError: The text has none; the same object as `error`.
        """
        if isinstance(self.result, EngineError):
            raise self.result
        return self.result


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressiveTranslation:
    """One part of a progressive translation."""

    text_delta: str
    """Text to append to that of the previous parts; all together are the text of the best hypothesis."""
    translation: Translation | None
    """The whole translation in the last part, None in all others."""


def hypothesis_of(found: FoundHypothesis, *, scored: bool) -> Hypothesis:
    """Return a hypothesis of the engine with the numbers that a server sends, to the last bit."""
    quality = found.quality
    if quality and quality.acceptable_probability is not None:
        quality = dataclasses.replace(quality, acceptable_probability=single(quality.acceptable_probability))
    return Hypothesis(
        text=found.text,
        score=single(found.score) if scored else None,
        token_count=found.token_count,
        finish_reason=found.finish_reason,
        tokens=tuple(dataclasses.replace(token, score=single(token.score)) for token in found.tokens),
        quality=quality,
        lost_placeholders=found.lost_placeholders,
    )


def single(value: float) -> float:
    """Return a number in single precision, as the wire has it."""
    return c_float(value).value


def language_of(found: DetectedLanguage) -> DetectedLanguage:
    """Return a language with the confidence that a server sends, to the last bit."""
    return dataclasses.replace(found, confidence=single(found.confidence))


def model_of(served: ServedModel) -> Model:
    """Describe a model of the engine."""
    copied = {name: getattr(served, name) for name in _names(Model) - {"version", "defaults", "residency"}}
    defaults = {name: getattr(served.default_options, name) for name in _names(DecodingDefaults)}
    return Model(
        version=str(served.version),
        defaults=DecodingDefaults(**defaults),
        residency=served.residency.value,
        **copied,
    )


def _names(kind: type[Any]) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}
