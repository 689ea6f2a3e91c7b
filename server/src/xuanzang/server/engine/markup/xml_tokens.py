"""Tokens of XML, found by expat, without document types and their entities."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NoReturn
from xml.parsers import expat

from xuanzang.server.engine.markup.tokens import MarkupError, MarkupToken, TokenKind, text_tokens

# Content is often a part of a document, such as one message with tags.
_ROOT = b"<r>"
_END = b"</r>"
_SECTION = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_TAGS = (TokenKind.OPEN, TokenKind.CLOSE, TokenKind.EMPTY)

_Event = tuple[int, TokenKind, str, Mapping[str, str | None]]


class _Events:
    """Positions, in bytes, of what expat reports."""

    def __init__(self, document: bytes) -> None:
        self.found: list[_Event] = []
        # Expat has no limits of its own against what the document type is refused for.
        self._parser = expat.ParserCreate("utf-8")
        self._parser.StartElementHandler = lambda name, attributes: self._add(TokenKind.OPEN, name, attributes)
        self._parser.EndElementHandler = lambda name: self._add(TokenKind.CLOSE, name)
        self._parser.CharacterDataHandler = lambda _: self._add(TokenKind.TEXT)
        self._parser.CommentHandler = lambda _: self._add(TokenKind.OTHER)
        self._parser.ProcessingInstructionHandler = lambda *_: self._add(TokenKind.OTHER)
        self._parser.XmlDeclHandler = lambda *_: self._add(TokenKind.OTHER)
        self._parser.StartCdataSectionHandler = lambda: self._add(TokenKind.TEXT)
        self._parser.StartDoctypeDeclHandler = _refuse_doctype
        self._parser.Parse(document, True)

    def _add(self, kind: TokenKind, name: str = "", attributes: Mapping[str, str | None] | None = None) -> None:
        self.found.append((self._parser.CurrentByteIndex, kind, name, attributes or {}))


def _refuse_doctype(*_: object) -> NoReturn:
    raise MarkupError("must not have a document type")


def xml_tokens(content: str) -> list[MarkupToken]:
    """Find the tags and the text of XML, a document or a part of one.

    An element is a block if it is not among text: its parent has no text of its own, and is a block, too.

    Args:
        content: XML.

    Returns:
        Tokens, which joined are the content.

    Raises:
        MarkupError: It is not well-formed, or has a document type.
    """
    is_document = content.lstrip().startswith("<?xml")
    encoded = content.encode()
    root = b"" if is_document else _ROOT
    try:
        events = _Events(root + encoded + (b"" if is_document else _END)).found
    except expat.ExpatError as error:
        # Without the position, which counts the root.
        raise MarkupError(f"is not well-formed XML: {expat.errors.messages[error.code]}") from error
    inner = events if is_document else events[1:-1]
    return _with_blocks(list(_tokens(inner, encoded, len(root))))


def _tokens(events: Sequence[_Event], content: bytes, offset: int) -> Iterator[MarkupToken]:
    starts = [start - offset for start, *_ in events]
    if content and (not starts or starts[0] > 0):
        yield MarkupToken(TokenKind.OTHER, content[: starts[0] if starts else None].decode())
    text: list[str] = []
    for (_, kind, name, attributes), (start, end) in zip(events, pairwise([*starts, len(content)]), strict=True):
        raw = content[start:end].decode()
        if kind is TokenKind.TEXT:
            text.append(raw)
            continue
        yield from _text("".join(text))
        text.clear()
        yield from _tag(kind, raw, name, attributes)
    yield from _text("".join(text))


def _tag(kind: TokenKind, raw: str, name: str, attributes: Mapping[str, str | None]) -> Iterator[MarkupToken]:
    # Expat reports an empty element as a start and an end without characters.
    if kind is TokenKind.OPEN and raw.endswith("/>"):
        yield MarkupToken(TokenKind.EMPTY, raw, name, attributes)
    elif raw:
        yield MarkupToken(kind, raw, name, attributes)


def _text(raw: str) -> Iterator[MarkupToken]:
    end = 0
    for section in _SECTION.finditer(raw):
        yield from text_tokens(raw[end : section.start()])
        yield MarkupToken(TokenKind.TEXT, section[0], text=section[1])
        end = section.end()
    yield from text_tokens(raw[end:])


def _with_blocks(tokens: Sequence[MarkupToken]) -> list[MarkupToken]:
    """Mark the tags at which sentences end."""
    has_text = _elements_with_text(tokens)
    # Whether the elements that are open are among text, or within such.
    inline = [has_text[0]]
    marked: list[MarkupToken] = []
    opened = 0
    for token in tokens:
        if token.kind is TokenKind.CLOSE:
            inline.pop()
        marked.append(token._replace(is_block=token.kind in _TAGS and not inline[-1]))
        if token.kind is TokenKind.OPEN:
            opened += 1
            inline.append(inline[-1] or has_text[opened])
    return marked


def _elements_with_text(tokens: Sequence[MarkupToken]) -> list[bool]:
    """Return whether elements have text of their own: first the root, then each in the order of their start tags."""
    has_text = [False]
    opened = [0]
    for token in tokens:
        if token.kind is TokenKind.OPEN:
            opened.append(len(has_text))
            has_text.append(False)
        elif token.kind is TokenKind.CLOSE:
            opened.pop()
        elif token.text.strip():
            has_text[opened[-1]] = True
    return has_text
