"""The format of contents, as requests name it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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
_READ_CHARACTERS = 4000
"""Characters of content with tags in which its language is looked for."""


def content_format_of(number: int) -> ContentFormat:
    """Return a format that `content_format_violations` finds nothing wrong with.

    Args:
        number: Number of the format on the wire.
    """
    return _FORMATS[number]


def content_format_violations(number: int, options: pb.DecodingOptions) -> Iterable[FieldViolation]:
    """Find what is wrong with a format, and the options that it excludes.

    Args:
        number: Number of the format on the wire.
        options: Options as the caller set them.

    Yields:
        At most one violation.
    """
    if number not in _FORMATS:
        yield FieldViolation(field="content_format", description=f"must be TEXT, HTML or XML, is {number}")
    elif options.token_details and _FORMATS[number] is not ContentFormat.TEXT:
        description = "must be false with content_format HTML or XML: tokens are of text without tags"
        yield FieldViolation(field="options.token_details", description=description)


def texts_without_tags(texts: Sequence[str], number: int) -> Sequence[str]:
    """Return what shows the language of contents: their beginnings, without tags if they have some.

    Args:
        texts: Contents.
        number: Number of the format on the wire, which may be unknown.
    """
    if _FORMATS.get(number, ContentFormat.TEXT) is ContentFormat.TEXT:
        return texts
    beginning = " ".join(text[:_READ_CHARACTERS] for text in texts)[:_READ_CHARACTERS]
    return (_TAGS.sub(" ", beginning),)
