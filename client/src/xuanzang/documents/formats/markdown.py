"""Markdown: the text of paragraphs, headings, list items and table cells, around whose words markup stays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyromark import Options, events_with_range, reference_definitions
from pyromark.event import Range

from xuanzang.documents.document import Document, ReadSettings, UnwritableError
from xuanzang.documents.encoding import EncodedText
from xuanzang.documents.formats.blocks import Kind, Piece, block_edits, is_balanced
from xuanzang.documents.formats.html import INLINE, html_edits
from xuanzang.documents.formats.html_tokens import VOID, Token, TokenKind, html_tokens, references
from xuanzang.documents.formats.markdown_blocks import LINE_BREAK, Block, parts, without_labels
from xuanzang.documents.formats.markdown_dialects import normalised, view_of
from xuanzang.documents.formats.markdown_writing import (
    EMPTY_ELEMENT,
    SPELLINGS,
    kept_marks,
    shape,
    with_apart_addresses,
)
from xuanzang.documents.splicing import Edit, SplicedDocument

_OPTIONS = (
    Options.ENABLE_TABLES
    | Options.ENABLE_STRIKETHROUGH
    | Options.ENABLE_TASKLISTS
    | Options.ENABLE_FOOTNOTES
    | Options.ENABLE_MATH
    | Options.ENABLE_DEFINITION_LIST
)
_FRONT_MATTER = re.compile(
    r"---[ \t]*+(?P<end>\r?\n)(?![ \t]*+[\r\n])"
    r"(?:(?:#.*+|[\w\"'][^\r\n]*?:(?:[ \t][^\r\n]*+)?|[ \t]++\S[^\r\n]*+|-[ \t][^\r\n]*+"
    r"|[\]}][^\r\n]*+|[ \t]*+)(?P=end))+?(?:---|\.\.\.)[ \t]*+(?=[\r\n]|\Z)"
    r"|\+\+\+[ \t]*+(?P<line>\r?\n)(?:[^\r\n]*+(?P=line))*?\+\+\+[ \t]*+(?=[\r\n]|\Z)"
)
_FOOTNOTE = re.compile(r"\[\^[^\[\]\s]+\]")
_TAG_LIKE = re.compile(r"<[A-Za-z/!?]")
_END_TAG = re.compile(r"</([A-Za-z][^\s/>]*+)")
_VERBATIM = ("pre", "script", "style", "svg", "math", "template")
"""HTML elements whose content is left alone, also where Markdown's blank lines divide it."""


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read a Markdown file; see `Format`."""
    source = EncodedText.decode(raw, settings.encoding)
    return SplicedDocument(source, list(_Reader(source.text, settings.limits.depth).edits()), is_html=True)


class _Reader:
    """Walk over the events of a Markdown text that collects the pieces of its blocks.

    Args:
        depth: Limit of untranslated elements inside one another in HTML.
    """

    def __init__(self, text: str, depth: int) -> None:
        self._depth = depth
        front = _FRONT_MATTER.match(text)
        self._offset = front.end() if front else 0
        self._body = text[self._offset :]
        self._labels = frozenset(map(normalised, reference_definitions(view_of(self._body).text, options=_OPTIONS)))
        self._last_end = {match[1].lower(): match.start() for match in _END_TAG.finditer(self._body)}
        """Start of the last end tag of each name."""
        self._verbatim: list[str] = []
        """Names of open HTML elements whose content is left alone, which began in an earlier block."""

    def edits(self) -> Iterator[Edit]:
        """Yield the edits of all blocks in their order."""
        view = view_of(self._body, self._labels)
        content = view.text.encode()
        block = Block(self._body, view.masks)
        html: list[Range] = []
        """Lines of the HTML block under way."""
        quotes = 0
        is_line_start = True
        for event, place in events_with_range(view.text, options=_OPTIONS):
            kind, name, value = parts(event)
            if kind == "Html":
                html.append(place)
            elif kind == "End" and name == "HtmlBlock" and html:
                is_comment = content.startswith(b"<!--", html[0]["start"])
                if not is_comment or block.content.startswith(b"<!--", html[0]["start"]):
                    yield from self._html(*self._html_text(block, html, is_quoted=quotes > 0))
                html = []
            if block.take(kind, name, value, (place["start"], place["end"])):
                continue
            yield from self._block(block.flush(), is_line_start=is_line_start)
            quotes += ((kind == "Start") - (kind == "End")) * (name == "BlockQuote")
            is_atx = name == "Heading" and content.startswith(b"#", place["start"])
            is_line_start = not is_atx and name != "TableCell" and kind != "InlineHtml"
        yield from self._block(block.flush(), is_line_start=is_line_start)

    def _html_text(self, block: Block, lines: Sequence[Range], *, is_quoted: bool) -> tuple[int, str]:
        """Return where an HTML block begins, and its text, with spaces for the marks of the quotation around it."""
        start, end = block.places(lines[0]["start"]), block.places(lines[-1]["end"])
        if not is_quoted:
            return start, self._body[start:end]
        characters = [" "] * (end - start)
        for line in lines:
            first, last = block.places(line["start"]), block.places(line["end"])
            characters[first - start : last - start] = self._body[first:last].replace("\n", " ").replace("\r", " ")
        return start, "".join(characters)

    def _html(self, start: int, text: str) -> Iterator[Edit]:
        """Yield the edits of an HTML block; one with half a tag, or within an untranslated element, has none."""
        tokens = list(html_tokens(text))
        was_verbatim = bool(self._verbatim)
        for token in tokens:
            self._follow(token, start)
        if was_verbatim or any(token.kind is TokenKind.TEXT and _TAG_LIKE.search(token.raw) for token in tokens):
            return
        if tokens[0].kind is TokenKind.START and tokens[0].name in INLINE - VOID:
            # It begins the block, so it must stay the first: without it, the markup is not balanced.
            text = " " * len(tokens[0].raw) + text[len(tokens[0].raw) :]
        for edit in html_edits(text, depth=self._depth, has_links=True):
            yield _moved(edit, self._offset + start)

    def _follow(self, token: Token, start: int) -> None:
        """Note which untranslated elements a tag leaves open; elements that are never closed do not count."""
        if self._verbatim:
            if token.name == self._verbatim[0] and token.kind is TokenKind.START:
                self._verbatim.append(token.name)
            elif token.name == self._verbatim[0] and token.kind is TokenKind.END:
                self._verbatim.pop()
        elif token.kind is TokenKind.START and token.name not in VOID:
            translate = token.attributes().get("translate")
            is_verbatim = token.name in _VERBATIM or (translate is not None and translate.value.lower() == "no")
            if is_verbatim and self._last_end.get(token.name, -1) > start + token.start:
                self._verbatim = [token.name]

    def _block(self, pieces: Sequence[Piece], *, is_line_start: bool) -> Iterator[Edit]:
        if pieces and not self._verbatim:
            first = pieces[0].start if is_line_start else -1
            if is_balanced(pieces):
                edits = block_edits(self._body, pieces, partial(self._composed, first, pieces))
            else:  # it has many edits, and reading the whole block for each of them would take quadratic time
                edits = block_edits(self._body, without_labels(pieces), partial(self._composed, first, ()))
            yield from (_moved(edit, self._offset) for edit in edits)
        if any(piece.kind is Kind.CLOSE and [piece.name] == self._verbatim for piece in pieces):
            self._verbatim = []

    def _composed(self, first: int, block: Sequence[Piece], pieces: Sequence[Piece], replaced: Sequence[Piece]) -> str:
        """Write a translation in the first spelling that is read as the same text and markup.

        Args:
            first: Index of the character that Markdown may take for the beginning of a block; -1: there is none.
            block: The block of the source, as context for reading the translation; empty: none.
            pieces: The translation.
            replaced: The pieces of the block that it replaces.

        Raises:
            UnwritableError: There is none.
        """
        block, pieces = block or replaced, with_apart_addresses(pieces)
        start, end = replaced[0].start, replaced[-1].end
        spans = (block[0].start, start), (end, block[-1].end)
        before, after = (LINE_BREAK.sub(" ", self._body[slice(*span)]) for span in spans)
        context = "" if block[0].start == first else "# "
        if not before and self._body[start - 1 : start] == '"' == self._body[end : end + 1]:
            pieces = [replace(piece, text=piece.text.replace('"', "'")) for piece in pieces]
        leading, trailing = (
            [each for each in block if each.end <= start],
            [each for each in block if each.start >= end],
        )
        wanted, kept = shape([*leading, *pieces, *trailing]), kept_marks(replaced, self._body)
        entities = _kept_references(self._body, pieces, replaced)
        for spelling in SPELLINGS:
            written = spelling(pieces, kept, is_first=start == first).translate(entities)
            found = self._shape(context + before + written + after)
            if found == wanted or (found[:2] == EMPTY_ELEMENT and found[2:] == wanted):
                return written
        raise UnwritableError("no spelling of Markdown has the text and the markup of the translation")

    def _shape(self, block: str) -> list[tuple[str, str]]:
        """Return the shape of a paragraph or heading; empty, if the text is something else."""
        text = block + "".join(f"\n\n{label}: a" for label in dict.fromkeys(_FOOTNOTE.findall(block)))
        view = view_of(text, self._labels)
        line = Block(text, view.masks)
        events = events_with_range(view.text, options=_OPTIONS, broken_link_callback=self._link)
        if parts(next(events, ("", None))[0])[1] not in ("Paragraph", "Heading"):
            return []
        for event, place in events:
            if not line.take(*parts(event), (place["start"], place["end"])):
                break
        return shape(line.flush())

    def _link(self, link: Any) -> tuple[str, str] | None:
        return ("", "") if normalised(link["reference"]) in self._labels else None


def _kept_references(body: str, pieces: Sequence[Piece], replaced: Sequence[Piece]) -> dict[int, str]:
    """Return the references to write for characters of a translation, as the replaced pieces do."""
    found = references("".join(body[piece.start : piece.end] for piece in replaced if piece.kind is Kind.TEXT))
    marks = "".join(piece.raw for piece in pieces if piece.kind is not Kind.TEXT) if found else ""
    return {character: reference for character, reference in found.items() if chr(character) not in marks}


def _moved(edit: Edit, offset: int) -> Edit:
    return replace(edit, start=edit.start + offset, end=edit.end + offset)
