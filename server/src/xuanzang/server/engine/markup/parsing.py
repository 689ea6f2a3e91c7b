"""Content with markup to a document of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xuanzang.server.engine.markup.block_builder import BlockBuilder
from xuanzang.server.engine.markup.document import Block, Document
from xuanzang.server.engine.markup.html_tokens import html_tokens
from xuanzang.server.engine.markup.tokens import MarkupError, MarkupToken, TokenKind
from xuanzang.server.engine.markup.xml_tokens import xml_tokens
from xuanzang.server.engine.types import ContentFormat

MAX_TAGS = 10_000
"""Maximum tags and comments of one content."""
MAX_MARKUP_CHARACTERS = 100_000
"""Maximum characters of one content with markup, whatever the limit of texts."""

_UNTRANSLATED = frozenset({"code", "pre", "script", "style", "svg", "math"})
_INVISIBLE = frozenset({"script", "style"})


def parse(content: str, content_format: ContentFormat) -> Document:
    """Cut content into blocks.

    Args:
        content: HTML or XML.
        content_format: HTML or XML.

    Returns:
        The document.

    Raises:
        MarkupError: The content cannot be read, or is over a limit.
    """
    if len(content) > MAX_MARKUP_CHARACTERS:
        raise MarkupError(f"must have at most {MAX_MARKUP_CHARACTERS} characters with markup, has {len(content)}")
    tokens = list(html_tokens(content) if content_format is ContentFormat.HTML else xml_tokens(content))
    count = sum(token.kind is not TokenKind.TEXT for token in tokens)
    if count > MAX_TAGS:
        raise MarkupError(f"must have at most {MAX_TAGS} tags, has {count}")
    return Document(parts=tuple(_parts(tokens)))


def _parts(tokens: Iterable[MarkupToken]) -> Iterator[str | Block]:
    remaining = iter(tokens)
    place = 0
    builder = BlockBuilder(place)
    for token in remaining:
        raw, text, is_verbatim = token.raw, "", token.kind in (TokenKind.EMPTY, TokenKind.OTHER)
        if token.kind is TokenKind.OPEN and _is_untranslated(token):
            is_verbatim = True
            raw, text = _element(token, remaining)
        place += len(raw)
        if token.is_block:
            yield from builder.build()
            yield raw
            builder = BlockBuilder(place)
        elif is_verbatim:
            builder.add_verbatim(raw, text)
        elif token.kind is TokenKind.OPEN:
            builder.open(token)
        elif token.kind is TokenKind.CLOSE:
            builder.close(token)
        else:
            builder.add_text(token)
    yield from builder.build()


def _is_untranslated(token: MarkupToken) -> bool:
    attributes = token.attributes
    marked = "no" in (attributes.get("translate"), attributes.get("its:translate"))
    return marked or token.name in _UNTRANSLATED or "notranslate" in (attributes.get("class") or "").split()


def _element(start: MarkupToken, following: Iterator[MarkupToken]) -> tuple[str, str]:
    """Take an element up to its end; return its characters and its text."""
    raw, text, depth = [start.raw], [], 1
    for token in following:
        raw.append(token.raw)
        text.append(token.text)
        if token.name == start.name:
            depth += {TokenKind.OPEN: 1, TokenKind.CLOSE: -1}.get(token.kind, 0)
        if not depth:
            break
    return "".join(raw), "" if start.name in _INVISIBLE else "".join(text)
