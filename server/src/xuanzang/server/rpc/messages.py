"""Messages to domain values and back. All faults of a request are found before any is reported."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError, ModelNotFoundError
from xuanzang.server.engine.values import DecodingOptions, FinishReason, Hypothesis, ServedModel
from xuanzang.translation.v1 import translation_pb2 as pb

MAX_CONTENTS = 1024
MAX_ID_BYTES = 256
MAX_BEAM_SIZE = 16
MAX_LENGTH_PENALTY = 10.0

_CONTENTS = re.compile(r"\bcontents(\[0\])?")
_FINISH_REASONS: Mapping[FinishReason, pb.FinishReason.ValueType] = MappingProxyType(
    {
        FinishReason.END_OF_SENTENCE: pb.FINISH_REASON_END_OF_SENTENCE,
        FinishReason.MAX_LENGTH: pb.FINISH_REASON_MAX_LENGTH,
        FinishReason.COPIED: pb.FINISH_REASON_COPIED,
    }
)

Resolve = Callable[..., ServedModel]
"""`Engine.resolve`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TranslationRequest:
    """A valid request."""

    texts: tuple[str, ...]
    model: ServedModel
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


def of_stream(error: InvalidInputError) -> InvalidInputError:
    """Name the field of an engine's error as a stream's messages have it.

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
    request: pb.TranslateTextRequest | pb.StreamTranslateTextRequest,
    *,
    texts: tuple[str, ...],
    violations: list[FieldViolation],
    resolve: Resolve,
) -> TranslationRequest:
    violations += _range_violations(request.options)
    try:
        model = resolve(
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
    options = _with_defaults(request.options, model)
    violations += _mutual_violations(options, model)
    if violations:
        raise InvalidInputError(violations)
    return TranslationRequest(texts=texts, model=model, options=options, return_scores=request.options.return_scores)


def _range_violations(options: pb.DecodingOptions) -> Iterable[FieldViolation]:
    """Faults that each option has by itself."""
    ranges: tuple[tuple[str, float, float, str], ...] = (
        ("beam_size", 1, MAX_BEAM_SIZE, f"1 to {MAX_BEAM_SIZE}"),
        ("num_hypotheses", 1, math.inf, "at least 1"),
        ("length_penalty", 0, MAX_LENGTH_PENALTY, f"0 to {MAX_LENGTH_PENALTY:g}"),
        ("min_target_length", 0, math.inf, "at least 0"),
        ("max_target_length", 1, math.inf, "at least 1"),
    )
    chosen = _chosen(options)
    for name, least, most, limits in ranges:
        # NaN compares false with both limits.
        if name in chosen and not least <= chosen[name] <= most:
            yield _option_violation(name, limits, chosen[name])


def _with_defaults(options: pb.DecodingOptions, model: ServedModel) -> DecodingOptions:
    """What the caller left out is the model's default, narrowed where the caller's own choice is narrower."""
    default = model.default_options
    chosen = _chosen(options)
    num_hypotheses = min(default.num_hypotheses, chosen.get("beam_size", default.num_hypotheses))
    completed: DecodingOptions = dataclasses.replace(default, **({"num_hypotheses": num_hypotheses} | chosen))
    return completed


def _chosen(options: pb.DecodingOptions) -> dict[str, Any]:
    """The decoding options that the caller set; a field that was set to 0 is one of them."""
    return {field.name: value for field, value in options.ListFields() if field.name != "return_scores"}


def _mutual_violations(options: DecodingOptions, model: ServedModel) -> Iterable[FieldViolation]:
    """Faults that options have beside each other, or beside the model."""
    longest = options.max_target_length or model.max_target_length
    if options.num_hypotheses > options.beam_size:
        yield _option_violation("num_hypotheses", f"at most beam_size, {options.beam_size}", options.num_hypotheses)
    if longest > model.max_target_length:
        yield _option_violation("max_target_length", f"at most {model.max_target_length} for this model", longest)
    if options.min_target_length > longest:
        yield _option_violation("min_target_length", f"at most {longest}", options.min_target_length)


def _option_violation(name: str, limits: str, value: float) -> FieldViolation:
    return FieldViolation(field=f"options.{name}", description=f"must be {limits}, is {value:g}")


def _translation(request: TranslationRequest, hypotheses: Iterable[Hypothesis]) -> pb.Translation:
    return pb.Translation(
        hypotheses=[
            pb.Hypothesis(
                text=hypothesis.text,
                score=hypothesis.score if request.return_scores else None,
                token_count=hypothesis.token_count,
                finish_reason=_FINISH_REASONS[hypothesis.finish_reason],
            )
            for hypothesis in hypotheses
        ]
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
        default_options=pb.DecodingOptions(**dataclasses.asdict(model.default_options), return_scores=False),
        max_source_length=model.max_source_length,
        max_target_length=model.max_target_length,
    )
