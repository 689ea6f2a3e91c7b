"""Messages to domain values and back. All faults of a request are found before any is reported."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError, ModelNotFoundError
from xuanzang.server.engine.types import DecodingOptions, FinishReason, Hypothesis, Route, ServedModel, TokenDetail
from xuanzang.server.rpc.options import mutual_violations, range_violations, with_defaults
from xuanzang.translation.v1 import translation_pb2 as pb

MAX_CONTENTS = 1024
MAX_ID_BYTES = 256

_CONTENTS = re.compile(r"\bcontents(\[0\])?")
_FINISH_REASONS: Mapping[FinishReason, pb.FinishReason.ValueType] = MappingProxyType(
    {
        FinishReason.END_OF_SENTENCE: pb.FINISH_REASON_END_OF_SENTENCE,
        FinishReason.MAX_LENGTH: pb.FINISH_REASON_MAX_LENGTH,
        FinishReason.COPIED: pb.FINISH_REASON_COPIED,
        FinishReason.DEADLINE: pb.FINISH_REASON_DEADLINE,
    }
)

Resolve = Callable[..., Route]
"""`Engine.resolve`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TranslationRequest:
    """A valid request."""

    texts: tuple[str, ...]
    model: ServedModel
    target_language: str
    """One of the model's."""
    options: DecodingOptions
    return_scores: bool


def read_unary_request(request: pb.TranslateTextRequest, resolve: Resolve) -> TranslationRequest:
    """Check a request with many texts and fill in the defaults.

    Args:
        request: As received.
        resolve: Finds the model.

    Returns:
        What to translate, with which model and how.

    Raises:
        InvalidInputError: With every fault that was found.
        ModelNotFoundError: No served model fits, and nothing else is wrong.
    """
    violations = []
    if not 1 <= len(request.contents) <= MAX_CONTENTS:
        description = f"must have 1 to {MAX_CONTENTS} elements, has {len(request.contents)}"
        violations.append(FieldViolation(field="contents", description=description))
    return _read(request, texts=tuple(request.contents), violations=violations, resolve=resolve)


def read_stream_request(request: pb.StreamTranslateTextRequest, resolve: Resolve) -> TranslationRequest:
    """Check one message of a stream and fill in the defaults.

    Args:
        request: As received.
        resolve: Finds the model.

    Returns:
        What to translate, with which model and how; one text.

    Raises:
        InvalidInputError: With every fault that was found.
        ModelNotFoundError: No served model fits, and nothing else is wrong.
    """
    violations = []
    id_bytes = len(request.id.encode())
    if id_bytes > MAX_ID_BYTES:
        description = f"must have at most {MAX_ID_BYTES} bytes, has {id_bytes}"
        violations.append(FieldViolation(field="id", description=description))
    return _read(request, texts=(request.content,), violations=violations, resolve=resolve)


def read_progressive_request(request: pb.TranslateTextProgressivelyRequest, resolve: Resolve) -> TranslationRequest:
    """Check a request with one text and fill in the defaults.

    Args:
        request: As received.
        resolve: Finds the model.

    Returns:
        What to translate, with which model and how; one text.

    Raises:
        InvalidInputError: With every fault that was found.
        ModelNotFoundError: No served model fits, and nothing else is wrong.
    """
    return _read(request, texts=(request.content,), violations=[], resolve=resolve)


def unary_response(
    request: TranslationRequest, translations: Iterable[Sequence[Hypothesis]]
) -> pb.TranslateTextResponse:
    """Answer a request.

    Args:
        request: That was translated.
        translations: Hypotheses of each text, best first.

    Returns:
        The answer.
    """
    return pb.TranslateTextResponse(
        translations=[_translation(request, hypotheses) for hypotheses in translations],
        model=request.model.name,
        model_version=str(request.model.version),
    )


def stream_response(
    caller_id: str, request: TranslationRequest, hypotheses: Sequence[Hypothesis]
) -> pb.StreamTranslateTextResponse:
    """Answer one message of a stream.

    Args:
        caller_id: The message's id.
        request: That was translated.
        hypotheses: Of its text, best first.

    Returns:
        The answer.
    """
    return pb.StreamTranslateTextResponse(
        id=caller_id,
        translation=_translation(request, hypotheses),
        model=request.model.name,
        model_version=str(request.model.version),
    )


def last_progressive_response(
    request: TranslationRequest, hypotheses: Sequence[Hypothesis], *, sent: int
) -> pb.TranslateTextProgressivelyResponse:
    """End the answer to a text that was sent in parts.

    Args:
        request: That was translated.
        hypotheses: Of its text, best first.
        sent: Characters of the best one that the caller has.

    Returns:
        The rest of the text, and the translation.
    """
    return pb.TranslateTextProgressivelyResponse(
        text_delta=hypotheses[0].text[sent:],
        translation=_translation(request, hypotheses),
        model=request.model.name,
        model_version=str(request.model.version),
    )


def of_single_text(error: InvalidInputError) -> InvalidInputError:
    """Name the field of an engine's error as messages with one text have it.

    Args:
        error: About "contents[0]".

    Returns:
        The same about "content".
    """
    return InvalidInputError(
        FieldViolation(
            field=_CONTENTS.sub("content", fault.field), description=_CONTENTS.sub("content", fault.description)
        )
        for fault in error.violations
    )


def models_response(models: Iterable[ServedModel]) -> pb.ListModelsResponse:
    """List the models being served.

    Args:
        models: In any order.

    Returns:
        The list, by name and version.
    """
    ordered = sorted(models, key=lambda model: (model.name, model.version))
    return pb.ListModelsResponse(models=[_model(model) for model in ordered])


def _read(
    request: pb.TranslateTextRequest | pb.StreamTranslateTextRequest | pb.TranslateTextProgressivelyRequest,
    *,
    texts: tuple[str, ...],
    violations: list[FieldViolation],
    resolve: Resolve,
) -> TranslationRequest:
    violations += range_violations(request.options)
    try:
        route = resolve(
            model=request.model,
            source_language=request.source_language_code,
            target_language=request.target_language_code,
        )
    except InvalidInputError as error:
        raise InvalidInputError((*violations, *error.violations)) from None
    except ModelNotFoundError:
        if violations:
            raise InvalidInputError(violations) from None
        raise
    options = with_defaults(request.options, route.model)
    violations += mutual_violations(options, route.model)
    if violations:
        raise InvalidInputError(violations)
    return TranslationRequest(
        texts=texts,
        model=route.model,
        target_language=route.target_language,
        options=options,
        return_scores=request.options.return_scores,
    )


def _translation(request: TranslationRequest, hypotheses: Iterable[Hypothesis]) -> pb.Translation:
    return pb.Translation(
        hypotheses=[
            pb.Hypothesis(
                text=hypothesis.text,
                score=hypothesis.score if request.return_scores else None,
                token_count=hypothesis.token_count,
                finish_reason=_FINISH_REASONS[hypothesis.finish_reason],
                tokens=map(_token_detail, hypothesis.tokens),
            )
            for hypothesis in hypotheses
        ]
    )


def _token_detail(token: TokenDetail) -> pb.TokenDetail:
    return pb.TokenDetail(
        text=token.text, score=token.score, source_start=token.source_start, source_end=token.source_end
    )


def _model(model: ServedModel) -> pb.Model:
    return pb.Model(
        name=model.name,
        version=str(model.version),
        source_language_codes=model.source_languages,
        target_language_codes=model.target_languages,
        precision=model.precision,
        manifest_sha256=model.manifest_sha256,
        is_default=model.is_default,
        default_options=_default_options(model.default_options),
        max_source_length=model.max_source_length,
        max_target_length=model.max_target_length,
    )


def _default_options(options: DecodingOptions) -> pb.DecodingOptions:
    # The other fields are off unless a caller sets them.
    return pb.DecodingOptions(
        beam_size=options.beam_size,
        num_hypotheses=options.num_hypotheses,
        length_penalty=options.length_penalty,
        min_target_length=options.min_target_length,
        max_target_length=options.max_target_length,
        return_scores=False,
    )
