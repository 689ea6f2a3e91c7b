"""Conversion of protobuf responses to the values of this package."""

from __future__ import annotations

import dataclasses

from xuanzang.client._errors import ServerFaultError, StatusCode, TranslationError
from xuanzang.client._status import error_from_status
from xuanzang.client._types import (
    DecodingDefaults,
    FinishReason,
    GlossaryMatch,
    GlossaryOutcome,
    Hypothesis,
    Model,
    ProgressiveTranslation,
    ProtectedPattern,
    StoredGlossary,
    TokenDetail,
    Translation,
)
from xuanzang.translation.v1 import translation_pb2 as pb


def translations(response: pb.TranslateTextResponse, *, expected: int) -> list[Translation]:
    """Read the translations of a response.

    Raises:
        ServerFaultError: The number of translations is not `expected`, or one has no hypothesis.
    """
    if len(response.translations) != expected:
        raise _fault(f"the server answered {expected} texts with {len(response.translations)} translations")
    return [_translation(each, response.model, response.model_version) for each in response.translations]


def streamed_result(response: pb.StreamTranslateTextResponse) -> Translation | TranslationError:
    """Read the result of one text of a stream."""
    if response.WhichOneof("result") == "error":
        return error_from_status(response.error)
    return _translation(response.translation, response.model, response.model_version)


def progressive_translation(response: pb.TranslateTextProgressivelyResponse) -> ProgressiveTranslation:
    """Read one part of a progressive translation."""
    translation = None
    if response.HasField("translation"):
        translation = _translation(response.translation, response.model, response.model_version)
    return ProgressiveTranslation(text_delta=response.text_delta, translation=translation)


def models(response: pb.ListModelsResponse) -> list[Model]:
    """Read the models of a response."""
    return [_model(each) for each in response.models]


def glossaries(response: pb.ListGlossariesResponse) -> list[StoredGlossary]:
    """Read the glossaries of a response."""
    return [
        StoredGlossary(
            name=each.name,
            source_language=each.source_language_code,
            target_language=each.target_language_code,
            version=each.version,
            entry_count=each.entry_count,
            sha256=each.sha256,
        )
        for each in response.glossaries
    ]


def _fault(message: str) -> ServerFaultError:
    return ServerFaultError(message, code=StatusCode.INTERNAL)


def _translation(message: pb.Translation, model: str, version: str) -> Translation:
    if not message.hypotheses:
        raise _fault("the server answered with a translation that has no hypothesis")
    return Translation(
        hypotheses=tuple(map(_hypothesis, message.hypotheses)),
        model=model,
        model_version=version,
        glossary_matches=tuple(map(_glossary_match, message.glossary_matches)),
    )


def _glossary_match(message: pb.GlossaryMatch) -> GlossaryMatch:
    outcomes = {outcome.value: outcome for outcome in GlossaryOutcome}
    patterns = {pattern.value: pattern for pattern in ProtectedPattern}
    return GlossaryMatch(
        source=message.source,
        source_start=message.source_start,
        source_end=message.source_end,
        target=message.target,
        outcome=outcomes.get(message.outcome, GlossaryOutcome.UNSPECIFIED),
        pattern=patterns.get(message.pattern, ProtectedPattern.UNSPECIFIED),
    )


def _hypothesis(message: pb.Hypothesis) -> Hypothesis:
    known = message.finish_reason in {reason.value for reason in FinishReason}
    return Hypothesis(
        text=message.text,
        score=message.score if message.HasField("score") else None,
        token_count=message.token_count,
        finish_reason=FinishReason(message.finish_reason) if known else FinishReason.UNSPECIFIED,
        tokens=tuple(map(_token_detail, message.tokens)),
    )


def _token_detail(message: pb.TokenDetail) -> TokenDetail:
    return TokenDetail(
        text=message.text, score=message.score, source_start=message.source_start, source_end=message.source_end
    )


def _model(message: pb.Model) -> Model:
    return Model(
        name=message.name,
        version=message.version,
        source_languages=tuple(message.source_language_codes),
        target_languages=tuple(message.target_language_codes),
        precision=message.precision,
        manifest_sha256=message.manifest_sha256,
        is_default=message.is_default,
        defaults=_defaults(message.default_options),
        max_source_length=message.max_source_length,
        max_target_length=message.max_target_length,
    )


def _defaults(message: pb.DecodingOptions) -> DecodingDefaults:
    given = {field.name: value for field, value in message.ListFields()}
    return DecodingDefaults(**{field.name: given.get(field.name) for field in dataclasses.fields(DecodingDefaults)})
