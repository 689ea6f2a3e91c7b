"""The format of contents, as requests name it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from xuanzang.server.engine.errors import FieldViolation
from xuanzang.server.engine.types import ContentFormat
from xuanzang.translation.v1 import translation_pb2 as pb

_FORMATS: Mapping[int, ContentFormat] = MappingProxyType(
    {
        pb.CONTENT_FORMAT_UNSPECIFIED: ContentFormat.TEXT,
        pb.CONTENT_FORMAT_TEXT: ContentFormat.TEXT,
        pb.CONTENT_FORMAT_HTML: ContentFormat.HTML,
        pb.CONTENT_FORMAT_XML: ContentFormat.XML,
    }
)

_TAGS = re.compile(r"<(script|style)\b.*?(?:</\1\s*>|\Z)|<[a-z/!?][^<>]*>?|&#?\w+;", re.DOTALL | re.IGNORECASE)


def content_format_of(number: int) -> ContentFormat:
    """Return a format that `content_format_violations` finds nothing wrong with.

    Args:
        number: Number of the format on the wire.
    """
    return _FORMATS[number]


def content_format_violations(settings: pb.TranslationSettings) -> Iterable[FieldViolation]:
    """Find what is wrong with a format, and what it excludes.

    Args:
        settings: Settings as the caller sent them.

    Yields:
        At most one violation.
    """
    number = settings.content_format
    if number not in _FORMATS:
        yield FieldViolation(field="content_format", description=f"must be TEXT, HTML or XML, is {number}")
    elif settings.token_details and _FORMATS[number] is not ContentFormat.TEXT:
        description = "must be false with content_format HTML or XML: tokens are of text without tags"
        yield FieldViolation(field="token_details", description=description)


def texts_without_tags(texts: Iterable[str], number: int) -> Iterator[str]:
    """Yield what shows the language of contents: the texts between tags if they have some.

    Args:
        texts: Contents.
        number: Number of the format on the wire, which may be unknown.
    """
    if _FORMATS.get(number, ContentFormat.TEXT) is ContentFormat.TEXT:
        yield from texts
        return
    for text in texts:
        end = 0
        for tag in _TAGS.finditer(text):
            yield text[end : tag.start()]
            end = tag.end()
        yield text[end:]
