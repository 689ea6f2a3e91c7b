"""Markdown: the text of paragraphs, headings, list items and table cells, around whose words markup stays."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

from markdown_it import MarkdownIt
from markdown_it.token import Token

from xuanzang.client.documents.document import Document, ReadSettings
from xuanzang.client.documents.encoding import EncodedText
from xuanzang.client.documents.formats.blocks import Kind, Piece, block_edits
from xuanzang.client.documents.formats.html import html_edits
from xuanzang.client.documents.formats.markdown_inline import PlacedInline
from xuanzang.client.documents.splicing import Edit, SplicedDocument, flowing

_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\r?\n.*?^\1[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_LINE_END = re.compile(r"\r\n?|\n")
_SPECIAL = re.compile(r"[\\`*\[\]<>|]|(?<!\w)_|_(?!\w)|~(?=~)|&(?=#?\w+;)")
_TAGGED = ("em", "strong", "s")
_BLOCK_START = re.compile(r"^(?:(?=[#+=-])|(\d+)(?=[.)]))")


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read a Markdown file; see `Format`."""
    source = EncodedText.decode(raw, settings.encoding)
    return SplicedDocument(source, list(_Reader(source.text, settings.limits.depth).edits()), is_html=True)


class _Reader:
    """The blocks of a Markdown text with their places in it.

    Args:
        text: The text.
        depth: Limit of blocks and inline elements inside one another; markdown-it takes deeper ones as text.
    """

    def __init__(self, text: str, depth: int) -> None:
        self._text = text
        self._depth = depth
        self._inline = PlacedInline()
        self._parser = MarkdownIt("commonmark", {"maxNesting": depth}).enable(["table", "strikethrough"])
        self._parser.core.ruler.disable(["inline", "text_join"])
        self._inline.ruler.enableOnly(self._parser.get_active_rules()["inline"])
        self._inline.ruler2.enableOnly(["balance_pairs", "strikethrough", "emphasis"])
        self._parser.inline = self._inline
        self._lines = [0, *(match.end() for match in _LINE_END.finditer(text)), len(text)]
        self._cell_end = 0
        """Where the last cell of a table ended."""

    def edits(self) -> Iterator[Edit]:
        """Yield the edits of all blocks in their order."""
        env: dict[str, object] = {}
        front = _FRONT_MATTER.match(self._text)
        # As many empty lines in place of the front matter: the lines keep their numbers.
        blanked = "\n" * len(_LINE_END.findall(front[0])) + self._text[front.end() :] if front else self._text
        before = ""
        for token in self._parser.parse(blanked, env):
            if token.type == "inline" and token.content and token.map:
                yield from self._block(token, env, kind=before)
            elif token.type == "html_block" and token.map and token.level == 0:
                start, end = self._lines[token.map[0]], self._lines[token.map[1]]
                for edit in html_edits(self._text[start:end], depth=self._depth):
                    yield replace(edit, start=edit.start + start, end=edit.end + start)
            before = token.type

    def _block(self, token: Token, env: dict[str, object], *, kind: str) -> Iterator[Edit]:
        content = token.content
        starts = self._cell_starts(token) if kind in ("th_open", "td_open") else self._starts(token, kind)
        if starts is None:
            return
        for pieces in self._inline.blocks(content, self._parser, env):
            with_tags = [_as_tag(piece) for piece in pieces]
            both = (block_edits(content, each, _written, write_first=_written_first) for each in (pieces, with_tags))
            for edit, safe in zip(*both, strict=True):
                first, last = content.count("\n", 0, edit.start), content.count("\n", 0, edit.end)
                render = partial(self._rendered, content[edit.start : edit.end], (edit, safe), env)
                yield replace(edit, start=starts[first] + edit.start, end=starts[last] + edit.end, render=render)

    def _rendered(self, source: str, edits: tuple[Edit, Edit], env: dict[str, object], found: tuple[str, ...]) -> str:
        """Write a translation; with HTML tags if the marks around its words would not count as such any more."""
        written = edits[0].render(found)
        return written if self._marks(written, env) == self._marks(source, env) else edits[1].render(found)

    def _marks(self, content: str, env: dict[str, object]) -> Counter[tuple[Kind, str]]:
        pieces = chain.from_iterable(self._inline.blocks(content, self._parser, env))
        return Counter((piece.kind, piece.name) for piece in pieces if piece.kind is not Kind.TEXT)

    def _starts(self, token: Token, kind: str) -> list[int]:
        """Return for each line of a block what to add to an index of its content for the index in the file."""
        starts, before = [], 0
        for number, line in enumerate(token.content.split("\n"), start=token.map[0] if token.map else 0):
            begin, end = self._lines[number], self._lines[number + 1]
            # Marks of quotations and lists stand before the text, and #s of headings on both sides.
            at = (str.find if kind == "heading_open" else str.rfind)(self._text, line.strip(), begin, end)
            starts.append(at - (len(line) - len(line.lstrip())) - before)
            before += len(line) + 1
        return starts

    def _cell_starts(self, token: Token) -> list[int] | None:
        """Return the same for the next cell of a row; None if it has an escaped bar, which its content lacks."""
        line = token.map[0] if token.map else 0
        at = self._text.find(token.content, max(self._cell_end, self._lines[line]), self._lines[line + 1])
        if at < 0:
            return None
        self._cell_end = at + len(token.content)
        return [at]


def _written(translation: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", flowing(translation))


def _written_first(translation: str) -> str:
    """Return what begins a block: it is to be no heading, list or rule."""
    return _BLOCK_START.sub(r"\1\\", _written(translation))


def _as_tag(piece: Piece) -> Piece:
    if piece.name not in _TAGGED:
        return piece
    return replace(piece, raw=f"<{piece.name}>" if piece.kind is Kind.OPEN else f"</{piece.name}>")
