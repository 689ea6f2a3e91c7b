"""Tokens of HTML, found as browsers do, and of XML, found by expat: tags, comments and text."""

from __future__ import annotations

import enum
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple, NoReturn
from xml.parsers import expat

_NONE: Mapping[str, str | None] = MappingProxyType({})
_REFERENCE = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);?")

# Python refuses to read thousands of digits.
_LONG_NUMBER = re.compile(r"(?<=&#)(?:([xX])([0-9a-fA-F]{20,}+)|([0-9]{20,}+))")
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())  # noqa: SIM905
"""Elements of HTML without content."""
# Elements that a line break comes before or after, in the style sheet of browsers, or that hold such elements only.
_BLOCKS = frozenset(
    "address article aside audio base blockquote body br button canvas caption center col colgroup dd details dialog "  # noqa: SIM905
    "dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html "
    "iframe legend li link main menu meta nav noframes noscript object ol optgroup option p param pre search section "
    "select source summary table tbody td template textarea tfoot th thead title tr track ul video".split()
)
_ATTRIBUTE = r"""[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+"""
# A part without an end extends to the end of the content, so no end is searched for twice.
_MARKUP = re.compile(
    rf"<(?P<end>/?)(?P<name>[A-Za-z][^\s/>]*+)(?:{_ATTRIBUTE})*+[\s/]*+>"
    r"|<!--(?:-?>|.*?(?:--!?>|\Z))|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[!?/][^>]*+>",
    re.DOTALL,
)
_BEGINNING = re.compile(r"<[A-Za-z!?/]")
_NAMED_VALUE = re.compile(r"""([^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>]*+)))?+""")
# Elements whose content ends at their end tag, whatever it looks like.
_CLOSING = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style", "textarea", "title")
}
# Content is often a part of a document, such as one message with tags.
_ROOT = b"<r>"
_END = b"</r>"
_SECTION = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)


class MarkupError(ValueError):
    """The content cannot be read, or is over a limit; the message quotes none of it."""


class TokenKind(enum.Enum):
    """Kind of a token of markup."""

    TEXT = "text"
    OPEN = "open"
    CLOSE = "close"
    EMPTY = "empty"
    """Tag of an element without content."""
    OTHER = "other"
    """Comment, declaration, processing instruction, or a reference that is not known."""


class MarkupToken(NamedTuple):
    """One tag, or a stretch of text."""

    kind: TokenKind
    raw: str
    """Characters of the content."""
    name: str = ""
    """Name of a tag, in lower case in HTML."""
    attributes: Mapping[str, str | None] = _NONE
    text: str = ""
    """Text that `raw` stands for; empty for tags."""
    is_block: bool = False
    """True if a sentence ends at the tag."""


def unescaped(raw: str) -> str:
    """Return HTML with characters instead of its references, whatever their numbers are."""
    return html.unescape(_LONG_NUMBER.sub(_shortened, raw))


def _shortened(number: re.Match[str]) -> str:
    """Return the same number without zeros before it, or another that is also too large."""
    return (number[1] or "") + ((number[2] or number[3]).lstrip("0")[:9] or "0")


def text_tokens(raw: str) -> Iterator[MarkupToken]:
    """Decode the character references of text."""
    end = 0
    for reference in _REFERENCE.finditer(raw):
        found = reference.group()
        decoded = unescaped(found)
        if decoded == found and not found.endswith(";"):
            continue  # "AT&T"
        if end < reference.start():
            yield _text(raw[end : reference.start()])
        known = decoded not in ("", found)
        yield MarkupToken(TokenKind.TEXT if known else TokenKind.OTHER, found, text=decoded if known else "")
        end = reference.end()
    if end < len(raw):
        yield _text(raw[end:])


def _text(raw: str) -> MarkupToken:
    return MarkupToken(TokenKind.TEXT, raw, text=raw)


def html_tokens(content: str) -> Iterator[MarkupToken]:
    """Find the tags and the text of HTML, a page or a part of one, in time that is linear in it."""
    place = 0
    while (begin := _BEGINNING.search(content, place)) and (found := _MARKUP.match(content, begin.start())):
        yield from text_tokens(content[place : found.start()])
        token = _html_tag(found)
        yield token
        place = found.end()
        if token.kind is TokenKind.OPEN and token.name in _CLOSING:
            closing = _CLOSING[token.name].search(content, place)
            end = closing.start() if closing else len(content)
            yield from text_tokens(content[place:end])
            place = end
    yield from text_tokens(content[place:])


def _html_tag(found: re.Match[str]) -> MarkupToken:
    raw, name = found[0], (found["name"] or "").lower()
    if not name:
        return MarkupToken(TokenKind.OTHER, raw)
    if found["end"]:
        return MarkupToken(TokenKind.CLOSE, raw, name, is_block=name in _BLOCKS)
    attributes: dict[str, str | None] = {}
    for match in _NAMED_VALUE.finditer(raw, 1 + len(name)):
        value = unescaped(match[match.lastindex]) if match.lastindex and match.lastindex > 1 else None
        attributes.setdefault(match[1].lower(), value)
    kind = TokenKind.EMPTY if name in VOID or raw.endswith("/>") else TokenKind.OPEN
    return MarkupToken(kind, raw, name, attributes, is_block=name in _BLOCKS)


_TAGS = (TokenKind.OPEN, TokenKind.CLOSE, TokenKind.EMPTY)

_Event = tuple[int, TokenKind, str, Mapping[str, str | None]]


def _events(document: bytes) -> list[_Event]:
    """Return what expat reports, with its position in bytes."""
    found: list[_Event] = []
    # Expat does not limit entity expansion, so the document type is refused.
    parser = expat.ParserCreate("utf-8")

    def add(kind: TokenKind, name: str = "", attributes: Mapping[str, str | None] = _NONE) -> None:
        found.append((parser.CurrentByteIndex, kind, name, attributes))

    parser.StartElementHandler = partial(add, TokenKind.OPEN)
    parser.EndElementHandler = partial(add, TokenKind.CLOSE)
    parser.CharacterDataHandler = lambda _: add(TokenKind.TEXT)
    parser.CommentHandler = lambda _: add(TokenKind.OTHER)
    parser.ProcessingInstructionHandler = lambda *_: add(TokenKind.OTHER)
    parser.XmlDeclHandler = lambda *_: add(TokenKind.OTHER)
    parser.StartCdataSectionHandler = lambda: add(TokenKind.TEXT)
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.Parse(document, True)
    return found


def _refuse_doctype(*_: object) -> NoReturn:
    raise MarkupError("must not have a document type")


def xml_tokens(content: str) -> list[MarkupToken]:
    """Find the tags and the text of XML, a document without document type or a part of one, or raise MarkupError.

    An element is a block if it is not among text: its parent is a block without direct text.
    """
    is_document = content.lstrip().startswith("<?xml")
    encoded = content.encode()
    root = b"" if is_document else _ROOT
    try:
        events = _events(root + encoded + (b"" if is_document else _END))
    except expat.ExpatError as error:
        # Without the position, which counts the root.
        raise MarkupError(f"is not well-formed XML: {expat.errors.messages[error.code]}") from error
    inner = events if is_document else events[1:-1]
    return _with_blocks(list(_xml_tokens(inner, encoded, len(root))))


def _xml_tokens(events: Sequence[_Event], content: bytes, offset: int) -> Iterator[MarkupToken]:
    starts = [start - offset for start, *_ in events]
    if content and (not starts or starts[0] > 0):
        yield MarkupToken(TokenKind.OTHER, content[: starts[0] if starts else None].decode())
    text: list[str] = []
    for (_, kind, name, attributes), (start, end) in zip(events, pairwise([*starts, len(content)]), strict=True):
        raw = content[start:end].decode()
        if kind is TokenKind.TEXT:
            text.append(raw)
            continue
        yield from _xml_text("".join(text))
        text.clear()
        # Expat reports an empty element as a start and an end without characters.
        if raw:
            is_empty = kind is TokenKind.OPEN and raw.endswith("/>")
            yield MarkupToken(TokenKind.EMPTY if is_empty else kind, raw, name, attributes)
    yield from _xml_text("".join(text))


def _xml_text(raw: str) -> Iterator[MarkupToken]:
    end = 0
    for section in _SECTION.finditer(raw):
        yield from text_tokens(raw[end : section.start()])
        yield MarkupToken(TokenKind.TEXT, section[0], text=section[1])
        end = section.end()
    yield from text_tokens(raw[end:])


def _with_blocks(tokens: Sequence[MarkupToken]) -> list[MarkupToken]:
    """Mark the tags that end sentences."""
    has_text = _elements_with_text(tokens)
    # True where the open elements are among text, directly or not.
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
