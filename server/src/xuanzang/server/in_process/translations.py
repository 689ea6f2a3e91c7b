"""Translations in one process: frozen values with the names that the SDK gives them, made of the engine's."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from ctypes import c_float
from dataclasses import dataclass
from typing import Any

from xuanzang.server.engine.errors import EngineError
from xuanzang.server.engine.text.language_detection import DetectedLanguage
from xuanzang.server.engine.types import FinishReason, GlossaryMatch, Quality, ServedModel, TokenDetail
from xuanzang.server.engine.types import Hypothesis as FoundHypothesis
from xuanzang.server.in_process.options import SamplingOptions
from xuanzang.translation.v1 import translation_pb2 as pb


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
    """How far to trust it; None unless `return_quality` is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveOptions:
    """Options of the search that were in effect; texts among them are not repeated."""

    beam_size: int
    num_hypotheses: int
    length_penalty: float
    min_target_length: int
    max_target_length: int | None
    """None: it depends on the sentence, `SentenceProvenance` has it."""
    return_scores: bool
    coverage_penalty: float
    repetition_penalty: float
    no_repeat_ngram_size: int
    sampling: SamplingOptions | None
    """Settings of the draws, with the seed in use, chosen or drawn; None: nothing was drawn."""
    return_alternatives: bool
    token_details: bool
    partial_on_deadline: bool
    refuse_long_sentences: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceProvenance:
    """How one sentence of a text was searched."""

    sentence_index: int
    """Index of the sentence among those of the text, counted from 0."""
    worker: int
    """Number of the worker, counted from 0."""
    batch_sentences: int
    """Sentences in the worker's batch when this one had joined, itself included; no answer depends on them."""
    queue_milliseconds: float
    encode_milliseconds: float
    decode_milliseconds: float
    steps: int
    """Steps of the decoder, those of all searches."""
    searches: int
    """Searches made: 1, and one more for a repetition and for terms that a search left out."""
    max_target_length: int
    """Maximum number of target tokens that was in effect, end token counted."""
    source_with_terms: str
    """The sentence as the model read it, with translations in the place of terms; empty if it read the sentence."""
    terms_required: bool
    """Whether the best hypothesis is of a search that required the terms."""
    kept_answer: bool
    """Whether nothing was searched, because the answer was kept or another call was waiting for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Everything on which a translation depends, and how it went; docs/replay.md describes each field."""

    method: str
    model: str
    model_version: str
    manifest_sha256: str
    precision: str
    target_language_code: str
    shortlist: bool
    execution_provider: str
    kernels: str
    kernels_reason: str
    server_version: str
    onnxruntime_version: str
    options: EffectiveOptions
    sentences: tuple[SentenceProvenance, ...]


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
    """How it was made; None unless `return_provenance` is set."""
    detected_language: str = ""
    """Language of the text, spelled as in `list_models`, if `source_language` is not set: the detected one or, where
    nothing tells, the one that it was translated from. Else empty."""
    detected_language_confidence: float | None = None
    """Probability of that language, 0 to 1; None if it was not detected."""
    glossary_matches: tuple[GlossaryMatch, ...] = ()
    """Terms and protected texts that occur in the text, in its order."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingDefaults:
    """Values of the options that a call leaves out; None for those that depend on the text."""

    beam_size: int
    num_hypotheses: int
    length_penalty: float
    min_target_length: int
    max_target_length: int | None
    coverage_penalty: float
    repetition_penalty: float
    no_repeat_ngram_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model that translates."""

    name: str
    """Name for the option `model`, such as "zh-en"."""
    version: str
    """Version, a positive integer as text."""
    source_languages: tuple[str, ...]
    """BCP-47 codes of the languages that the model translates from."""
    target_languages: tuple[str, ...]
    """BCP-47 codes of the languages that the model translates into."""
    precision: str
    """Number format of the weights: "float32", "float16" or "int8"."""
    manifest_sha256: str
    """Hexadecimal SHA-256 of the bundle's manifest; equal digests mean equal bundles."""
    is_default: bool
    """Whether calls that name no version get this one."""
    defaults: DecodingDefaults
    """Values of the options that a call leaves out."""
    max_source_length: int
    """Maximum number of source tokens per sentence; a longer one is cut, or refused with `refuse_long_sentences`."""
    max_target_length: int
    """Maximum number of target tokens per sentence, end token counted."""
    max_content_characters: int
    """Maximum number of characters of a text."""
    licence: str = ""
    """Licence of the weights as their publisher states it; empty if unknown."""
    source_model: str = ""
    """The published model that it was made from; empty if there is none."""


def translation_of(
    found: Sequence[FoundHypothesis],
    model: ServedModel,
    *,
    scored: bool,
    detected_language: str,
    detected_language_confidence: float | None,
    provenance: pb.Provenance | None,
) -> Translation:
    """Make a translation of the engine's hypotheses, best first.

    Its numbers are those that a server sends, to the last bit: the wire has scores in single precision.
    """
    return Translation(
        hypotheses=tuple(_hypothesis(each, scored=scored) for each in found),
        model=model.name,
        model_version=str(model.version),
        provenance=provenance and _provenance(provenance),
        detected_language=detected_language,
        detected_language_confidence=detected_language_confidence and _single(detected_language_confidence),
        glossary_matches=found[0].matches,
    )


def _hypothesis(found: FoundHypothesis, *, scored: bool) -> Hypothesis:
    quality = found.quality
    if quality and quality.acceptable_probability is not None:
        quality = dataclasses.replace(quality, acceptable_probability=_single(quality.acceptable_probability))
    return Hypothesis(
        text=found.text,
        score=_single(found.score) if scored else None,
        token_count=found.token_count,
        finish_reason=found.finish_reason,
        tokens=tuple(dataclasses.replace(token, score=_single(token.score)) for token in found.tokens),
        quality=quality,
    )


def _single(value: float) -> float:
    return c_float(value).value


def language_of(found: DetectedLanguage) -> DetectedLanguage:
    """Return a language with the confidence that a server sends, to the last bit."""
    return dataclasses.replace(found, confidence=_single(found.confidence))


def model_of(served: ServedModel) -> Model:
    """Describe a model of the engine."""
    copied = {name: getattr(served, name) for name in _names(Model) - {"version", "defaults"}}
    defaults = {name: getattr(served.default_options, name) for name in _names(DecodingDefaults)}
    return Model(version=str(served.version), defaults=DecodingDefaults(**defaults), **copied)


def _provenance(message: pb.Provenance) -> Provenance:
    copied = {name: getattr(message, name) for name in _names(Provenance) & set(message.DESCRIPTOR.fields_by_name)}
    target = message.settings.target_language_code
    sentences = tuple(
        SentenceProvenance(**{name: getattr(sentence, name) for name in _names(SentenceProvenance)})
        for sentence in message.sentences
    )
    options = _effective(message.settings)
    return Provenance(**copied | {"target_language_code": target, "options": options, "sentences": sentences})


def _effective(settings: pb.TranslationSettings) -> EffectiveOptions:
    options = settings.options
    sampling, limited = options.HasField("sampling"), options.HasField("max_target_length")
    on_settings = set(settings.DESCRIPTOR.fields_by_name)
    values = {name: getattr(settings if name in on_settings else options, name) for name in _names(EffectiveOptions)}
    drawn = {name: getattr(options.sampling, name) for name in _names(SamplingOptions)}
    values["sampling"] = SamplingOptions(**drawn) if sampling else None
    values["max_target_length"] = options.max_target_length if limited else None
    return EffectiveOptions(**values)


def _names(kind: type[Any]) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}
