"""HTML: the text of blocks, the title, and attributes that people read; scripts, code and all tags stay."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from xuanzang.documents.document import Document, DocumentError, ReadSettings
from xuanzang.documents.encoding import EncodedText
from xuanzang.documents.formats.blocks import Kind, Piece, block_edits, markup_text
from xuanzang.documents.formats.html_tokens import VOID, Token, TokenKind, html_tokens, unescaped
from xuanzang.documents.splicing import Edit, SplicedDocument, flowing, translatable

_DECLARED = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
_UNTRANSLATED = frozenset(
    ("script", "style", "code", "pre", "kbd", "samp", "var", "textarea", "template", "svg", "math")
)
_INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark q ruby rb rp rt s samp small "  # noqa: SIM905
    "span strike strong sub sup time tt u var wbr".split()
)
"""Elements that sentences go through; all others end a block."""
_CLOSED_BY_THE_NEXT = frozenset(("p", "option", "dt", "dd"))
_READ_ATTRIBUTES = ("alt", "title", "placeholder", "aria-label")


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read an HTML file; see `Format`."""
    declared = _DECLARED.search(raw[:4096])
    source = EncodedText.decode(raw, settings.encoding or (declared and declared[1].decode("ascii")))
    edits = html_edits(source.text, depth=settings.limits.depth)
    return SplicedDocument(source, edits, is_html=True, errors="xmlcharrefreplace")


def html_edits(text: str, *, depth: int) -> list[Edit]:
    """Return the edits of a document or a part of one.

    Args:
        text: HTML.
        depth: Limit of untranslated elements inside one another.

    Raises:
        DocumentError: The limit is exceeded.
    """
    blocks = _Blocks(text, depth)
    for token in html_tokens(text):
        blocks.take(token)
    blocks.finish()
    return blocks.edits


class _Blocks:
    """Collects the pieces of blocks, token by token.

    Args:
        text: HTML.
        depth: Limit of untranslated elements inside one another.
    """

    def __init__(self, text: str, depth: int) -> None:
        self.edits: list[Edit] = []
        self._text = text
        self._depth = depth
        self._pieces: list[Piece] = []
        """The block under way."""
        self._skipped: list[str] = []
        """Untranslated elements that are open: the outermost, and those of its name inside."""
        self._code: Token | None = None
        """Start of the outermost one, if sentences go through it."""
        self._code_text: list[str] = []

    def take(self, token: Token) -> None:
        """Go on with a token."""
        if self._skipped and self._skip(token):
            return
        if token.kind is TokenKind.TEXT:
            self._add(Kind.TEXT, token, text=flowing(unescaped(token.raw)))
        elif token.kind is TokenKind.START:
            self._start(token)
        elif token.kind is TokenKind.END and token.name in _INLINE:
            self._add(Kind.CLOSE, token)
        else:
            self._flush()

    def finish(self) -> None:
        """End what is under way at the end of the text."""
        self._end_code(len(self._text))
        self._flush()

    def _start(self, token: Token) -> None:
        attributes = {name: attribute.value for name, attribute in token.attributes().items()}
        marked = attributes.get("translate") == "no" or "notranslate" in attributes.get("class", "").split()
        is_code = token.name not in VOID and (token.name in _UNTRANSLATED or marked)
        if is_code:
            self._enter(token.name)
        if token.name not in _INLINE:
            self._flush()
            self.edits += _attribute_edits(token, token.start)
        elif is_code:
            self._code, self._code_text = token, []
        else:
            self._add(Kind.LONE if token.name in VOID else Kind.OPEN, token)

    def _skip(self, token: Token) -> bool:
        """Go on with an untranslated element; return whether the token is of it."""
        outermost = self._skipped[0]
        if token.kind is TokenKind.TEXT:
            self._code_text.append(token.raw)
        if token.name == outermost and token.kind is TokenKind.START:
            if outermost in _CLOSED_BY_THE_NEXT:
                self._skipped.clear()
                return False
            self._enter(outermost)
        elif token.name == outermost and token.kind is TokenKind.END:
            self._skipped.pop()
            if not self._skipped:
                self._end_code(token.end)
        return True

    def _enter(self, name: str) -> None:
        self._skipped.append(name)
        if len(self._skipped) > self._depth:
            raise DocumentError(f"elements are nested more than {self._depth} deep")

    def _end_code(self, end: int) -> None:
        if self._code:
            raw = self._text[self._code.start : end]
            whole = Token(kind=TokenKind.TEXT, start=self._code.start, raw=raw)
            edits = tuple(_attribute_edits(self._code, 0))
            self._add(Kind.CODE, whole, text=flowing(unescaped("".join(self._code_text))), edits=edits)
            self._code = None

    def _add(self, kind: Kind, token: Token, *, text: str = "", edits: tuple[Edit, ...] | None = None) -> None:
        if edits is None:
            edits = tuple(_attribute_edits(token, 0)) if token.kind is TokenKind.START else ()
        span = {"start": token.start, "end": token.end}
        self._pieces.append(Piece(kind=kind, raw=token.raw, text=text, name=token.name, edits=edits, **span))

    def _flush(self) -> None:
        pieces, self._pieces = self._pieces, []
        self.edits += block_edits(self._text, pieces, markup_text)


def _attribute_edits(tag: Token, at: int) -> Iterator[Edit]:
    for name, attribute in tag.attributes().items():
        text = attribute.value.strip()
        if name in _READ_ATTRIBUTES and attribute.is_quoted and translatable(text):
            start, end = at + attribute.start, at + attribute.end
            yield Edit(start=start, end=end, texts=(markup_text(text),), render=_attribute)


def _attribute(found: tuple[str, ...]) -> str:
    return html.escape(unescaped(found[0]))
