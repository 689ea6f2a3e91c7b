"""Between the values of this package and the messages of the wire."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.message import Message

from xuanzang.client._errors import FieldViolation, InvalidRequestError, ServerFaultError, StatusCode, TranslationError
from xuanzang.client._status import error_from_status
from xuanzang.client._types import DecodingDefaults, FinishReason, Hypothesis, Model, Translation
from xuanzang.translation.v1 import translation_pb2 as pb


def translate_request(
    texts: Sequence[str],
    *,
    source_language: str | None = None,
    target_language: str | None = None,
    model: str | None = None,
    beam_size: int | None = None,
    num_hypotheses: int | None = None,
    length_penalty: float | None = None,
    min_target_length: int | None = None,
    max_target_length: int | None = None,
    return_scores: bool | None = None,
) -> pb.TranslateTextRequest:
    """Build the request for some texts.

    Raises:
        InvalidRequestError: A value cannot be written on the wire.
        TypeError: A lone text instead of a sequence, or a value of the wrong type.
    """
    if isinstance(texts, str | bytes):
        raise TypeError("texts is a sequence of str; for a single text call translate_one")
    request = pb.TranslateTextRequest(
        source_language_code=source_language or "", target_language_code=target_language or "", model=model or ""
    )
    options = {
        "beam_size": beam_size,
        "num_hypotheses": num_hypotheses,
        "length_penalty": length_penalty,
        "min_target_length": min_target_length,
        "max_target_length": max_target_length,
        "return_scores": return_scores,
    }
    for name, value in options.items():
        if value is not None:
            _set(request.options, name, value, path=f"options.{name}")
    for index, text in enumerate(texts):
        _check_text(text, path=f"contents[{index}]")
        request.contents.append(text)
    return request


def stream_request(template: pb.TranslateTextRequest, *, index: int, text: str) -> pb.StreamTranslateTextRequest:
    """Build the message for one text of a stream, with the languages, model and options of `template`.

    Raises:
        InvalidRequestError: The text cannot be written on the wire.
    """
    _check_text(text, path="content")
    return pb.StreamTranslateTextRequest(
        id=str(index),
        content=text,
        source_language_code=template.source_language_code,
        target_language_code=template.target_language_code,
        model=template.model,
        options=template.options if template.HasField("options") else None,
    )


def translations(response: pb.TranslateTextResponse, *, expected: int) -> list[Translation]:
    """Read the translations of a response.

    Raises:
        ServerFaultError: Not one translation for each of the `expected` texts.
    """
    if len(response.translations) != expected:
        raise _fault(f"the server answered {expected} texts with {len(response.translations)} translations")
    return [_translation(each, response.model, response.model_version) for each in response.translations]


def streamed_result(response: pb.StreamTranslateTextResponse) -> Translation | TranslationError:
    """Read what became of one text of a stream."""
    if response.WhichOneof("result") == "error":
        return error_from_status(response.error)
    return _translation(response.translation, response.model, response.model_version)


def models(response: pb.ListModelsResponse) -> list[Model]:
    """Read the models of a response."""
    return [_model(each) for each in response.models]


def _check_text(text: str, *, path: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"{path} is a {type(text).__name__}, not a str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _invalid(path, f"is no valid Unicode text: {error.reason} at position {error.start}") from error


def _set(message: Message, name: str, value: float, *, path: str) -> None:
    try:
        setattr(message, name, value)
    except ValueError as error:  # outside 32 bits; every narrower limit is the server's to judge
        raise _invalid(path, f"is out of range: {value}") from error


def _invalid(path: str, description: str) -> InvalidRequestError:
    violation = FieldViolation(field=path, description=description)
    return InvalidRequestError(f"{path} {description}", code=StatusCode.INVALID_ARGUMENT, violations=(violation,))


def _fault(message: str) -> ServerFaultError:
    return ServerFaultError(message, code=StatusCode.INTERNAL)


def _translation(message: pb.Translation, model: str, version: str) -> Translation:
    if not message.hypotheses:
        raise _fault("the server answered with a translation that has no hypothesis")
    return Translation(hypotheses=tuple(map(_hypothesis, message.hypotheses)), model=model, model_version=version)


def _hypothesis(message: pb.Hypothesis) -> Hypothesis:
    known = message.finish_reason in {reason.value for reason in FinishReason}
    return Hypothesis(
        text=message.text,
        score=message.score if message.HasField("score") else None,
        token_count=message.token_count,
        finish_reason=FinishReason(message.finish_reason) if known else FinishReason.UNSPECIFIED,
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
    return DecodingDefaults(
        beam_size=message.beam_size if message.HasField("beam_size") else None,
        num_hypotheses=message.num_hypotheses if message.HasField("num_hypotheses") else None,
        length_penalty=message.length_penalty if message.HasField("length_penalty") else None,
        min_target_length=message.min_target_length if message.HasField("min_target_length") else None,
        max_target_length=message.max_target_length if message.HasField("max_target_length") else None,
    )
