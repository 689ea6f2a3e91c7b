"""Request messages, checked and completed. All faults of a request are found before any is reported.

What requests share are their settings. Here and in the engine, errors name fields of settings without "settings."; what
leaves the server names them as the caller sent them (`as_sent`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError, ModelNotFoundError
from xuanzang.server.engine.scheduling.call import Call
from xuanzang.server.engine.terminology.glossaries import GlossaryFolder
from xuanzang.server.engine.terminology.terms import NO_TERMS
from xuanzang.server.engine.types import ContentFormat, Route
from xuanzang.server.rpc.messages.options import OPTION_FIELDS, mutual_violations, range_violations, with_defaults
from xuanzang.server.rpc.messages.terms import (
    TERM_FIELDS,
    read_terms,
    search_violations,
    term_fields,
    term_violations,
)
from xuanzang.translation.v1 import translation_pb2 as pb

MAX_CONTENTS = 1024
MAX_ID_BYTES = 256

_CONTENTS = re.compile(r"\bcontents(\[0\])?")
_BESIDE_SETTINGS = re.compile(r"(contents?|id|attention_\w+)\b")
_TAGS = re.compile(r"<(script|style)\b.*?(?:</\1\s*>|\Z)|<[a-z/!?][^<>]*>?|&#?\w+;", re.DOTALL | re.IGNORECASE)
# Settings of which no value is a fault by itself.
_ALWAYS_VALID = frozenset(
    {
        *("model", "source_language_code", "target_language_code", "pass_through_unserved"),
        *("return_scores", "return_provenance", "return_quality", "return_alternatives"),
    }
)
_FORMATS: Mapping[int, ContentFormat] = MappingProxyType(
    {
        pb.CONTENT_FORMAT_UNSPECIFIED: ContentFormat.TEXT,
        pb.CONTENT_FORMAT_TEXT: ContentFormat.TEXT,
        pb.CONTENT_FORMAT_HTML: ContentFormat.HTML,
        pb.CONTENT_FORMAT_XML: ContentFormat.XML,
    }
)

Resolve = Callable[..., Awaitable[Route]]
"""`RequestRouter.route`."""


async def read_unary_request(request: pb.TranslateTextRequest, resolve: Resolve, glossaries: GlossaryFolder) -> Call:
    """Check a request with many texts and fill in the defaults, as `read_settings` does."""
    faults = _contents_violations(request)
    return await read_settings(request.settings, tuple(request.contents), resolve, glossaries, violations=faults)


async def read_stream_request(
    request: pb.StreamTranslateTextRequest, resolve: Resolve, glossaries: GlossaryFolder
) -> Call:
    """Check one message of a stream and fill in the defaults, as `read_settings` does."""
    faults = []
    if (id_bytes := len(request.id.encode())) > MAX_ID_BYTES:
        description = f"must have at most {MAX_ID_BYTES} bytes, has {id_bytes}"
        faults.append(FieldViolation(field="id", description=description))
    return await read_settings(request.settings, (request.content,), resolve, glossaries, violations=faults)


async def read_settings(
    settings: pb.TranslationSettings,
    texts: tuple[str, ...],
    resolve: Resolve,
    glossaries: GlossaryFolder,
    *,
    violations: Iterable[FieldViolation] = (),
) -> Call:
    """Check how texts are to be translated and fill in the defaults; `violations` are faults of what is beside them.

    Raises:
        InvalidInputError: The request has faults; the error names all of them.
        ModelNotFoundError: No served model fits the request, which has no fault otherwise.
    """
    present = {field.name for field, _ in settings.ListFields()}
    faults = [*violations]
    if not present <= _ALWAYS_VALID:
        faults += settings_violations(settings)
    route = await _resolved(settings, texts, resolve, faults)
    options, terms = route.model.default_options, NO_TERMS
    if not present.isdisjoint(OPTION_FIELDS):
        options = with_defaults(settings, route.model)
        faults += mutual_violations(options, route.model)
    fields = () if present.isdisjoint(TERM_FIELDS) else term_fields(settings)
    if fields:
        faults += search_violations(fields, options)
    if faults:
        raise InvalidInputError(faults)
    if fields:
        terms = read_terms(settings, fields, route, glossaries)
    return Call(
        texts=texts,
        model=route.model,
        source_language=route.source_language,
        target_language=route.target_language,
        options=options,
        return_scores=settings.return_scores,
        return_provenance=settings.return_provenance,
        readings=route.readings,
        terms=terms,
        content_format=_FORMATS[settings.content_format],
    )


async def _resolved(
    settings: pb.TranslationSettings, texts: tuple[str, ...], resolve: Resolve, faults: Sequence[FieldViolation]
) -> Route:
    """Find the model of a request; where there is none, faults of the settings are named too, or instead."""
    try:
        return await resolve(
            model=settings.model,
            source_language=settings.source_language_code,
            target_language=settings.target_language_code,
            texts=_texts_without_tags(texts, settings.content_format) if settings.content_format else texts,
            pass_through_unserved=settings.pass_through_unserved,
        )
    except InvalidInputError as error:
        if not faults:
            raise
        raise InvalidInputError((*faults, *error.violations)) from None
    except ModelNotFoundError:
        if not faults:
            raise
        raise InvalidInputError(faults) from None


def settings_violations(settings: pb.TranslationSettings) -> Iterator[FieldViolation]:
    """Find the values that no model takes."""
    if settings.HasField("options"):
        yield from range_violations(settings.options)
    if settings.glossary_entries or settings.protected_patterns:
        yield from term_violations(settings)
    if settings.content_format:
        yield from _format_violations(settings)


def read_detection_request(request: pb.DetectLanguageRequest) -> tuple[str, ...]:
    """Check a request for the languages of texts; InvalidInputError: there are none, or too many."""
    if violations := _contents_violations(request):
        raise InvalidInputError(violations)
    return tuple(request.contents)


def for_single_text(error: InvalidInputError, name: str = "content") -> InvalidInputError:
    """Rename the field of an engine's error about a single text."""
    return error.with_violations(
        FieldViolation(field=_CONTENTS.sub(name, fault.field), description=_CONTENTS.sub(name, fault.description))
        for fault in error.violations
    )


def as_sent(error: InvalidInputError) -> InvalidInputError:
    """Name the fields of an engine's error as requests have them: "settings.model", and "contents[3]" as it is."""
    return error.with_violations(
        fault if _BESIDE_SETTINGS.match(fault.field) else dataclasses.replace(fault, field=f"settings.{fault.field}")
        for fault in error.violations
    )


def _contents_violations(request: pb.TranslateTextRequest | pb.DetectLanguageRequest) -> list[FieldViolation]:
    if 1 <= len(request.contents) <= MAX_CONTENTS:
        return []
    description = f"must have 1 to {MAX_CONTENTS} elements, has {len(request.contents)}"
    return [FieldViolation(field="contents", description=description)]


def _format_violations(settings: pb.TranslationSettings) -> Iterator[FieldViolation]:
    """Find what is wrong with the format of contents, and what it excludes."""
    number = settings.content_format
    if number not in _FORMATS:
        yield FieldViolation(field="content_format", description=f"must be TEXT, HTML or XML, is {number}")
    elif settings.token_details and _FORMATS[number] is not ContentFormat.TEXT:
        description = "must be false with content_format HTML or XML: tokens are of text without tags"
        yield FieldViolation(field="token_details", description=description)


def _texts_without_tags(texts: Sequence[str], number: int) -> Sequence[str]:
    """Return what shows the language of contents: the text between tags if they have some."""
    if _FORMATS.get(number, ContentFormat.TEXT) is ContentFormat.TEXT:
        return texts
    return [_TAGS.sub(" ", text) for text in texts]
