"""Request messages, checked and completed. All faults of a request are found before any is reported."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError, ModelNotFoundError
from xuanzang.server.engine.terminology.glossaries import GlossaryFolder
from xuanzang.server.engine.terminology.terms import NO_TERMS, Terms
from xuanzang.server.engine.types import ContentFormat, DecodingOptions, Route, ServedModel
from xuanzang.server.rpc.messages.content_format import content_format_of, content_format_violations, texts_without_tags
from xuanzang.server.rpc.messages.options import mutual_violations, range_violations, with_defaults
from xuanzang.server.rpc.messages.quality import quality_violations
from xuanzang.server.rpc.messages.terms import read_terms, search_violations, term_fields, term_violations
from xuanzang.translation.v1 import translation_pb2 as pb

MAX_CONTENTS = 1024
MAX_ID_BYTES = 256

_CONTENTS = re.compile(r"\bcontents(\[0\])?")

Resolve = Callable[..., Route]
"""`RequestRouter.resolve`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TranslationRequest:
    """A valid request, with the model that serves it."""

    texts: tuple[str, ...]
    model: ServedModel
    target_language: str
    """One of the model's target languages."""
    options: DecodingOptions
    return_scores: bool
    return_provenance: bool = False
    detected_language: str = ""
    """Language of the texts, if it was detected; else empty."""
    terms: Terms = NO_TERMS
    """What translations keep."""
    content_format: ContentFormat = ContentFormat.TEXT
    source_language: str = ""
    """One of the model's source languages, or empty for its first."""


def read_unary_request(
    request: pb.TranslateTextRequest, resolve: Resolve, glossaries: GlossaryFolder
) -> TranslationRequest:
    """Check a request with many texts and fill in the defaults.

    Args:
        request: Message of the caller.
        resolve: `RequestRouter.resolve`.
        glossaries: Glossaries that requests may name.

    Returns:
        A valid request.

    Raises:
        InvalidInputError: The request has faults; the error names all of them.
        ModelNotFoundError: No served model fits the request, which has no fault otherwise.
    """
    violations = _contents_violations(request)
    return _read(request, texts=tuple(request.contents), violations=violations, resolve=resolve, glossaries=glossaries)


def read_stream_request(
    request: pb.StreamTranslateTextRequest, resolve: Resolve, glossaries: GlossaryFolder
) -> TranslationRequest:
    """Check one message of a stream and fill in the defaults.

    Args:
        request: Message of the caller.
        resolve: `RequestRouter.resolve`.
        glossaries: Glossaries that requests may name.

    Returns:
        A valid request with one text.

    Raises:
        InvalidInputError: The request has faults; the error names all of them.
        ModelNotFoundError: No served model fits the request, which has no fault otherwise.
    """
    violations = []
    id_bytes = len(request.id.encode())
    if id_bytes > MAX_ID_BYTES:
        description = f"must have at most {MAX_ID_BYTES} bytes, has {id_bytes}"
        violations.append(FieldViolation(field="id", description=description))
    return _read(request, texts=(request.content,), violations=violations, resolve=resolve, glossaries=glossaries)


def read_progressive_request(
    request: pb.TranslateTextProgressivelyRequest, resolve: Resolve, glossaries: GlossaryFolder
) -> TranslationRequest:
    """Check a request with one text and fill in the defaults.

    Args:
        request: Message of the caller.
        resolve: `RequestRouter.resolve`.
        glossaries: Glossaries that requests may name.

    Returns:
        A valid request with one text.

    Raises:
        InvalidInputError: The request has faults; the error names all of them.
        ModelNotFoundError: No served model fits the request, which has no fault otherwise.
    """
    return _read(request, texts=(request.content,), violations=[], resolve=resolve, glossaries=glossaries)


def read_detection_request(request: pb.DetectLanguageRequest) -> tuple[str, ...]:
    """Check a request for the languages of texts.

    Args:
        request: Message of the caller.

    Returns:
        The texts.

    Raises:
        InvalidInputError: There are none, or too many.
    """
    if violations := _contents_violations(request):
        raise InvalidInputError(violations)
    return tuple(request.contents)


def for_single_text(error: InvalidInputError) -> InvalidInputError:
    """Rename the field of an engine's error to that of messages with a single text.

    Args:
        error: Error about "contents[0]".

    Returns:
        The same error about "content".
    """
    return InvalidInputError(
        FieldViolation(
            field=_CONTENTS.sub("content", fault.field), description=_CONTENTS.sub("content", fault.description)
        )
        for fault in error.violations
    )


def _contents_violations(request: pb.TranslateTextRequest | pb.DetectLanguageRequest) -> list[FieldViolation]:
    if 1 <= len(request.contents) <= MAX_CONTENTS:
        return []
    description = f"must have 1 to {MAX_CONTENTS} elements, has {len(request.contents)}"
    return [FieldViolation(field="contents", description=description)]


def _read(
    request: pb.TranslateTextRequest | pb.StreamTranslateTextRequest | pb.TranslateTextProgressivelyRequest,
    *,
    texts: tuple[str, ...],
    violations: list[FieldViolation],
    resolve: Resolve,
    glossaries: GlossaryFolder,
) -> TranslationRequest:
    violations += range_violations(request.options)
    violations += term_violations(request)
    violations += content_format_violations(request.content_format, request.options)
    try:
        route = resolve(
            model=request.model,
            source_language=request.source_language_code,
            target_language=request.target_language_code,
            texts=texts_without_tags(texts, request.content_format),
        )
    except InvalidInputError as error:
        raise InvalidInputError((*violations, *error.violations)) from None
    except ModelNotFoundError:
        if violations:
            raise InvalidInputError(violations) from None
        raise
    options = with_defaults(request.options, route.model)
    if request.return_quality:
        options = dataclasses.replace(options, quality=True)
        violations += quality_violations(route.model)
    fields = term_fields(request)
    violations += mutual_violations(options, route.model)
    violations += search_violations(fields, options)
    if violations:
        raise InvalidInputError(violations)
    return TranslationRequest(
        texts=texts,
        model=route.model,
        source_language=route.source_language,
        target_language=route.target_language,
        options=options,
        return_scores=request.options.return_scores,
        return_provenance=request.return_provenance,
        detected_language=route.detected_language,
        terms=read_terms(request, fields, route, glossaries),
        content_format=content_format_of(request.content_format),
    )
