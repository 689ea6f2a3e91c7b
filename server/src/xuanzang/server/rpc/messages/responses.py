"""Response messages, made of the engine's results, and the provenance of translations for callers who ask for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from xuanzang.server.engine.calls.record import Call, CallRecord
from xuanzang.server.engine.scheduling.request import SentenceTimeline
from xuanzang.server.engine.types import (
    FinishReason,
    Hypothesis,
    Quality,
    QualityFlag,
    Residency,
    Runtime,
    ServedModel,
)
from xuanzang.server.rpc.messages.terms import glossary_match
from xuanzang.text.language_detection import DetectedLanguage
from xuanzang.text.types import TextKind, TokenDetail
from xuanzang.translation.v1 import translation_pb2 as pb

_FINISH_REASONS: Mapping[FinishReason, pb.FinishReason.ValueType] = MappingProxyType(
    {reason: pb.FinishReason.Value(f"FINISH_REASON_{reason.name}") for reason in FinishReason}
)
_FLAGS: Mapping[QualityFlag, pb.QualityFlag.ValueType] = MappingProxyType(
    {flag: pb.QualityFlag.Value(f"QUALITY_FLAG_{flag.name}") for flag in QualityFlag}
)

_RESIDENCIES: Mapping[Residency, pb.ModelResidency.ValueType] = MappingProxyType(
    {each: pb.ModelResidency.Value(f"MODEL_RESIDENCY_{each.name}") for each in Residency}
)

_SERVER_VERSION = version("xuanzang-server")
# Sampling has its own message; the texts would make the answer many times as large as the request.
_SCALARS = tuple(
    field.name
    for field in pb.DecodingOptions.DESCRIPTOR.fields
    if field.name not in ("sampling", "target_prefix", "suppressed_texts")
)


class Provenance:
    """Says how the texts of one call were translated."""

    def __init__(self, call: Call, record: CallRecord, runtime: Runtime, *, method: str) -> None:
        self._record = record
        self._shared = pb.Provenance(
            method=method,
            model=call.model.name,
            model_version=str(call.model.version),
            manifest_sha256=call.model.manifest_sha256,
            precision=call.model.precision,
            shortlist=call.model.uses_shortlist,
            execution_provider=runtime.execution_provider,
            kernels=runtime.kernels,
            kernels_reason=runtime.kernels_reason,
            server_version=_SERVER_VERSION,
            onnxruntime_version=runtime.onnxruntime_version,
            settings=effective_settings(call),
        )
        if call.first and (pivot := pivot_message(call)):
            pivot.manifest_sha256, pivot.precision = call.first.model.manifest_sha256, call.first.model.precision
            self._shared.pivot.CopyFrom(pivot)

    def of_text(self, text_index: int) -> pb.Provenance:
        """Say how a text was translated."""
        message = pb.Provenance(sentences=[_sentence(*each) for each in self._record.of_text(text_index)])
        message.MergeFrom(self._shared)
        if self._record.first:
            message.pivot.sentences.extend(_sentence(*each) for each in self._record.first.of_text(text_index))
        return message


def effective_settings(call: Call) -> pb.TranslationSettings:
    """Return the settings in effect, without texts."""
    options = call.options
    scalars = {name: value for name in _SCALARS if (value := getattr(options, name)) is not None}
    sampling = pb.SamplingOptions(**dataclasses.asdict(options.sampling)) if options.sampling else None
    return pb.TranslationSettings(
        target_language_code=call.target_language,
        options=pb.DecodingOptions(**scalars, sampling=sampling),
        return_alternatives=options.return_alternatives,
        return_scores=call.return_scores,
        token_details=options.token_details,
        return_quality=options.quality,
        return_provenance=call.return_provenance,
        placeholders=sorted(
            pb.PlaceholderFamily.Value(f"PLACEHOLDER_FAMILY_{each.name}") for each in call.placeholders
        ),
    )


def _sentence(sentence_index: int, timeline: SentenceTimeline) -> pb.SentenceProvenance:
    return pb.SentenceProvenance(
        sentence_index=sentence_index,
        worker=timeline.worker,
        batch_sentences=timeline.batch_size,
        queue_milliseconds=1000 * (timeline.taken_at - timeline.queued_at),
        encode_milliseconds=1000 * (timeline.encoded_at - timeline.taken_at),
        decode_milliseconds=1000 * (timeline.finished_at - timeline.encoded_at),
        steps=timeline.steps,
        searches=timeline.searches,
        max_target_length=timeline.max_target_length,
        kept_answer=timeline.is_kept,
        from_lexicon=timeline.from_lexicon,
        source_with_terms=timeline.source_with_terms,
        terms_required=timeline.terms_required,
    )


def unary_response(
    call: Call, translations: Iterable[Sequence[Hypothesis]], provenance: Provenance | None
) -> pb.TranslateTextResponse:
    """Answer a request with the hypotheses of each of its texts, best first."""
    return pb.TranslateTextResponse(
        translations=[
            translation(call, hypotheses, provenance, text_index) for text_index, hypotheses in enumerate(translations)
        ],
        model=call.model.name,
        model_version=str(call.model.version),
    )


def stream_response(
    text_id: str, call: Call, hypotheses: Sequence[Hypothesis], provenance: Provenance | None
) -> pb.StreamTranslateTextResponse:
    """Answer one message of a stream, which has the caller's id of its text."""
    return pb.StreamTranslateTextResponse(
        id=text_id,
        translation=translation(call, hypotheses, provenance),
        model=call.model.name,
        model_version=str(call.model.version),
    )


def last_progressive_response(
    call: Call, hypotheses: Sequence[Hypothesis], provenance: Provenance | None, *, sent: int
) -> pb.TranslateTextProgressivelyResponse:
    """Complete the answer to a text, after the sent characters of its best hypothesis."""
    return pb.TranslateTextProgressivelyResponse(
        text_delta=hypotheses[0].text[sent:],
        translation=translation(call, hypotheses, provenance),
        model=call.model.name,
        model_version=str(call.model.version),
    )


def detection_response(detections: Iterable[Iterable[DetectedLanguage]]) -> pb.DetectLanguageResponse:
    """Answer a request for the languages of texts; those of each come likeliest first."""
    return pb.DetectLanguageResponse(
        detections=[pb.LanguageDetection(languages=map(_detected_language, languages)) for languages in detections]
    )


def models_response(models: Iterable[ServedModel]) -> pb.ListModelsResponse:
    """List the models being served, by name and version."""
    ordered = sorted(models, key=lambda model: (model.name, model.version))
    return pb.ListModelsResponse(models=[_model(model) for model in ordered])


def translation(
    call: Call, hypotheses: Sequence[Hypothesis], provenance: Provenance | None = None, text_index: int = 0
) -> pb.Translation:
    """Return the translation of a text of a call, with its provenance if that is given."""
    return pb.Translation(
        hypotheses=[
            pb.Hypothesis(
                text=hypothesis.text,
                score=hypothesis.score if call.return_scores else None,
                token_count=hypothesis.token_count,
                finish_reason=_FINISH_REASONS[hypothesis.finish_reason],
                tokens=map(_token_detail, hypothesis.tokens) if hypothesis.tokens else None,
                quality=_quality(hypothesis.quality) if hypothesis.quality else None,
                lost_placeholders=hypothesis.lost_placeholders or None,
            )
            for hypothesis in hypotheses
        ],
        provenance=provenance.of_text(text_index) if provenance else None,
        glossary_matches=map(glossary_match, hypotheses[0].matches) if hypotheses[0].matches else None,
        **(detection_fields(call, text_index) if call.readings else {}),
        pivot=pivot_message(call),
    )


def pivot_message(call: Call) -> pb.Pivot | None:
    """Say what the first of a call's two models was; None of a call with one model."""
    if (first := call.first) is None:
        return None
    return pb.Pivot(
        language_code=call.source_language or call.model.source_languages[0],
        model=first.model.name,
        model_version=str(first.model.version),
    )


def detection_fields(call: Call, text_index: int) -> dict[str, Any]:
    """Return the fields about the language that a text was read in, if the request named none."""
    if not call.readings:
        return {}
    reading = call.readings[text_index]
    code = reading.language
    if reading.kind is TextKind.UNCERTAIN and reading.has_letters:
        origin = call.first or call
        code = code or origin.source_language or origin.model.source_languages[0]
    return {"detected_language_code": code, "detected_language_confidence": reading.confidence or None}


def _detected_language(language: DetectedLanguage) -> pb.DetectedLanguage:
    return pb.DetectedLanguage(language_code=language.code, confidence=language.confidence, script_code=language.script)


def _token_detail(token: TokenDetail) -> pb.TokenDetail:
    return pb.TokenDetail(
        text=token.text, score=token.score, source_start=token.source_start, source_end=token.source_end
    )


def _quality(quality: Quality) -> pb.Quality:
    return pb.Quality(
        acceptable_probability=quality.acceptable_probability, flags=[_FLAGS[flag] for flag in quality.flags]
    )


def _model(model: ServedModel) -> pb.Model:
    options = model.default_options
    return pb.Model(
        name=model.name,
        version=str(model.version),
        source_language_codes=model.source_languages,
        target_language_codes=model.target_languages,
        precision=model.precision,
        manifest_sha256=model.manifest_sha256,
        is_default=model.is_default,
        # The other options are off unless a caller sets them.
        default_options=pb.DecodingOptions(
            beam_size=options.beam_size,
            num_hypotheses=options.num_hypotheses,
            length_penalty=options.length_penalty,
            min_target_length=options.min_target_length,
            max_target_length=options.max_target_length,
        ),
        max_source_length=model.max_source_length,
        max_target_length=model.max_target_length,
        max_content_characters=model.max_content_characters,
        licence=model.licence,
        source_model=model.source_model,
        residency=_RESIDENCIES[model.residency],
        residency_time=Timestamp(seconds=int(model.residency_since)),
        residency_fault=model.residency_fault,
        pivoted_source_language_codes=model.pivoted_source_languages,
        pivot_language_code=model.pivot_language,
    )
