"""Blocks of text with inline markup, such as paragraphs: each is one text, whose tags stand for the markup.

A text is HTML whose `<g id="1">` and `</g>` stand for markup around words, `<img id="2">` for markup without, and
`<code id="3">` for untranslated parts, so that the server puts them around the words of the translation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from html import escape

from xuanzang.documents.formats.html_tokens import unescaped
from xuanzang.documents.splicing import Edit, flowing, spliced, stripped_span, translatable

_TAG = re.compile(r'<g id="(\d+)">|</g>|<img id="(\d+)">|<code id="(\d+)">[^<]*</code>')
_CARRIED = re.compile(_TAG.pattern + r"|</?xliff\d+/?>|\{xliff\d+\}")
"""Tags of blocks, and tags that stand for the elements of XLIFF in messages."""
_LEADING_SPACE = re.compile(r"(?:\s|&(?:nbsp|ensp|emsp|#160|#xa0|#xA0);)*")
_TRAILING_SPACES = ("&nbsp;", "&ensp;", "&emsp;", "&#160;", "&#xa0;", "&#xA0;")


class Kind(Enum):
    """Kind of a part of a block."""

    TEXT = auto()
    OPEN = auto()
    """Beginning of markup around words."""
    CLOSE = auto()
    LONE = auto()
    """Markup around nothing."""
    CODE = auto()
    """Text that is not translated."""
    SPACE = auto()
    """White space other than a single space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a block."""

    kind: Kind
    start: int
    """Index of its first character in the source."""
    end: int
    """Index after its last character."""
    raw: str
    """Its characters, in the form to write."""
    text: str = ""
    """Its characters, if it is text or code."""
    name: str = ""
    """The name that its other end has, too, if it has one."""
    edits: tuple[Edit, ...] = ()
    """Texts within it, by their places in `raw`."""


Compose = Callable[[Sequence[Piece], Sequence[Piece]], str]
"""Function from the pieces of a translation and the replaced pieces to the file's text."""


def block_edits(source: str, pieces: Sequence[Piece], compose: Compose) -> Iterator[Edit]:
    """Yield the edits of a block: one for all of it, if its markup is balanced, else one for each stretch of text.

    Args:
        source: Text of the file.
        pieces: The block, in its order.
        compose: How a translation is written.
    """
    first, last = _bounds(source, pieces)
    block = _stripped(source, pieces[first:last])
    if translatable("".join(piece.text for piece in block if piece.kind is Kind.TEXT)) and is_balanced(block):
        yield from _inner_edits(pieces[:first])
        yield _edit(block, compose)
        yield from _inner_edits(pieces[last:])
        return
    for piece in pieces:
        yield from _inner_edits([piece])
        [alone] = _stripped(source, [piece])
        if piece.kind is Kind.TEXT and translatable(alone.text):
            yield _edit([alone], compose)


def _edit(block: Sequence[Piece], compose: Compose) -> Edit:
    texts = (encoded(block), *(text for piece in block for edit in piece.edits for text in edit.texts))

    def render(found: tuple[str, ...]) -> str:
        within = dict(zip(texts[1:], found[1:], strict=True))
        pieces = [replace(piece, raw=spliced(piece.raw, piece.edits, within)) for piece in decoded(found[0], block)]
        return compose(pieces, block)

    return Edit(start=block[0].start, end=block[-1].end, texts=texts, render=render)


def _inner_edits(pieces: Sequence[Piece]) -> Iterator[Edit]:
    for piece in pieces:
        for edit in piece.edits:
            yield replace(edit, start=edit.start + piece.start, end=edit.end + piece.start)


def _stripped(source: str, pieces: Sequence[Piece]) -> list[Piece]:
    """Return pieces without the white space at both ends, also where that is written as references."""
    block = list(pieces)
    if block and block[0].kind is Kind.TEXT:
        first = block[0]
        leading = _LEADING_SPACE.match(source, first.start, first.end)
        start = stripped_span(source, leading.end() if leading else first.start, first.end)[0]
        block[0] = replace(first, start=start, text=first.text.lstrip())
    if block and block[-1].kind is Kind.TEXT:
        last = block[-1]
        end = last.end
        while end > last.start and (source[end - 1].isspace() or source.endswith(_TRAILING_SPACES, last.start, end)):
            end = end - 1 if source[end - 1].isspace() else source.rindex("&", last.start, end)
        block[-1] = replace(last, end=end, text=last.text.rstrip())
    return block


def tag_fault(text: str, translation: str) -> str | None:
    """Return the fault in the tags of a translation, or None."""
    wanted, found = ([match.group() for match in _CARRIED.finditer(each)] for each in (text, translation))
    if sorted(wanted) != sorted(found):
        return "the translation lost or doubled a tag"
    depth = 0
    for tag in found:
        depth += (tag.startswith(("<g", "<xliff")) and not tag.endswith("/>")) - tag.startswith("</")
        if depth < 0:
            return "the translation has a tag that ends before it begins"
    return None


def markup_text(text: str) -> str:
    """Return a text as HTML."""
    return escape(text, quote=False)


def encoded(pieces: Sequence[Piece]) -> str:
    """Return pieces as one text to translate."""
    if len(pieces) == 1 and pieces[0].kind is Kind.TEXT:
        return markup_text(pieces[0].text).strip()
    numbers = {place: number for number, place in enumerate(_numbered(pieces), start=1)}
    alone = set(_next_to_words(pieces[::-1], -1))
    return "".join(
        (" " if piece.kind is Kind.SPACE and piece.start in alone else "") + _tag(numbers.get(place, 0), piece)
        for place, piece in enumerate(pieces)
    ).strip()


def decoded(translation: str, pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces of a translation, texts anew."""
    found = list(_found(translation, pieces))
    found = list(_tight(found, set(_next_to_words(pieces, 0)), str.lstrip))
    return list(_tight(found[::-1], set(_next_to_words(pieces[::-1], -1)), str.rstrip))[::-1]


def _next_to_words(pieces: Iterable[Piece], end: int) -> Iterator[int]:
    """Yield the places in the source of white space that no space follows.

    Args:
        pieces: Pieces in the order of the text, or the other way round.
        end: Index of the character of a text that comes next in this order: 0 or -1.
    """
    last: Piece | None = None
    for piece in pieces:
        if last and _is_shown(piece) and not (piece.kind is Kind.TEXT and piece.text[end].isspace()):
            yield last.start
        if _is_shown(piece):
            last = piece if piece.kind is Kind.SPACE else None
    if last:
        yield last.start


def _tight(pieces: Iterable[Piece], places: Container[int], strip: Callable[[str], str]) -> Iterator[Piece]:
    """Yield pieces with texts stripped of spaces that follow white space at some places of the source."""
    is_after = False
    for piece in pieces:
        text = strip(piece.text) if is_after and piece.kind is Kind.TEXT else piece.text
        yield piece if text == piece.text else replace(piece, text=text)
        if _is_shown(piece) and (text or piece.kind is not Kind.TEXT):
            is_after = piece.kind is Kind.SPACE and piece.start in places


def _is_shown(piece: Piece) -> bool:
    return piece.kind not in (Kind.OPEN, Kind.CLOSE) and (piece.kind is not Kind.TEXT or bool(piece.text))


def _found(translation: str, pieces: Sequence[Piece]) -> Iterator[Piece]:
    numbered, closing = _numbered(pieces), _closing(pieces)
    within: list[int] = []
    at = 0
    for match in _TAG.finditer(translation):
        yield from _text_piece(translation[at : match.start()])
        at = match.end()
        place = numbered[int(match.group(match.lastindex)) - 1] if match.lastindex else closing[within.pop()]
        if pieces[place].kind is Kind.OPEN:
            within.append(place)
        yield pieces[place]
    yield from _text_piece(translation[at:])


def _numbered(pieces: Sequence[Piece]) -> list[int]:
    """Return the places of the pieces whose tags have numbers, from 1."""
    return [place for place, piece in enumerate(pieces) if piece.kind not in (Kind.TEXT, Kind.CLOSE)]


def _tag(number: int, piece: Piece) -> str:
    if piece.kind is Kind.CODE:
        return f'<code id="{number}">{markup_text(piece.text)}</code>'
    if piece.kind in (Kind.LONE, Kind.SPACE):
        return f'<img id="{number}">'
    tags = {Kind.OPEN: f'<g id="{number}">', Kind.CLOSE: "</g>"}
    return tags.get(piece.kind) or markup_text(piece.text)


def _text_piece(raw: str) -> Iterator[Piece]:
    if raw:
        yield Piece(kind=Kind.TEXT, start=0, end=0, raw="", text=flowing(unescaped(raw)))


def _closing(pieces: Sequence[Piece]) -> dict[int, int]:
    """Return the number of the end of each piece that opens something, if the ends match."""
    found, within = {}, []
    for number, piece in enumerate(pieces):
        if piece.kind is Kind.OPEN:
            within.append(number)
        elif piece.kind is Kind.CLOSE and within and pieces[within[-1]].name == piece.name:
            found[within.pop()] = number
    return found


def is_balanced(pieces: Sequence[Piece]) -> bool:
    """Return whether all markup around words has both ends."""
    return 2 * len(_closing(pieces)) == sum(piece.kind in (Kind.OPEN, Kind.CLOSE) for piece in pieces)


def _bounds(source: str, pieces: Sequence[Piece]) -> tuple[int, int]:
    """Return the range of the pieces without the markup at both ends that need neither move nor change."""
    first, last, closing = 0, len(pieces), _closing(pieces)
    while first < last:
        if _is_idle(pieces[first]):
            first += 1
        elif _is_idle(pieces[last - 1]):
            last -= 1
        elif closing.get(first) == last - 1 and _is_unchanged(source, pieces[last - 1]):
            first, last = first + 1, last - 1
        else:
            break
    return first, last


def _is_idle(piece: Piece) -> bool:
    return piece.kind in (Kind.LONE, Kind.SPACE) or (piece.kind is Kind.TEXT and not piece.text.strip())


def _is_unchanged(source: str, piece: Piece) -> bool:
    return piece.raw == source[piece.start : piece.end]
