"""HTML: the text of blocks, the title, and attributes that people read; scripts, code and all tags stay."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from xuanzang.documents.document import Document, DocumentError, ReadSettings
from xuanzang.documents.encoding import EncodedText
from xuanzang.documents.formats.blocks import Kind, Piece, block_edits, markup_text
from xuanzang.documents.formats.html_tokens import VOID, Token, TokenKind, html_tokens, references, unescaped
from xuanzang.documents.splicing import Edit, SplicedDocument, flowing, translatable

_DECLARED = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})|<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]{1,40})""",
    re.IGNORECASE,
)
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_PRESCANNED_BYTES = 4096
# A declaration in ASCII bytes cannot be UTF-16, so browsers replace these names (WHATWG HTML, "prescan").
_DECLARED_AS = {
    **dict.fromkeys(
        ("utf-16", "utf-16le", "utf-16be", "unicode", "ucs-2", "csunicode", "iso-10646-ucs-2", "unicodefeff"), "utf-8"
    ),
    **dict.fromkeys(("unicode-1-1-utf-8", "unicode11utf8", "unicode20utf8", "x-unicode20utf8", "unicodefffe"), "utf-8"),
    "x-user-defined": "windows-1252",
}
_READINGS = ("rt", "rp", "rtc")
"""Elements with the reading of neighbouring words."""
_UNTRANSLATED = frozenset(
    (
        *("script", "style", "code", "pre", "kbd", "samp", "tt", "var", "textarea", "template", "svg", "math"),
        *("listing", "plaintext", "xmp", *_READINGS),
    )
)
INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark q ruby rb rp rt s samp small "  # noqa: SIM905
    "span strike strong sub sup time tt u var wbr".split()
)
"""Elements that sentences go through; all others end a block."""
_CELLS = ("td", "th")
_ROWS = ("tr", *_CELLS)
_GROUPS = ("thead", "tbody", "tfoot", "caption", "colgroup", *_ROWS)
_END_PARAGRAPHS = (
    *("address", "article", "aside", "blockquote", "center", "details", "dialog", "dir", "div", "dl", "fieldset"),
    *("figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "hr", "main"),
    *("menu", "nav", "ol", "p", "pre", "search", "section", "table", "ul"),
)
_ENDED_BY = {
    **dict.fromkeys(_END_PARAGRAPHS, ("p",)),
    **dict.fromkeys(("dt", "dd"), ("dt", "dd", "p")),
    **dict.fromkeys(_CELLS, _CELLS),
    **dict.fromkeys(("thead", "tbody", "tfoot"), _GROUPS),
    **dict.fromkeys(("rt", "rp"), ("rt", "rp")),
    "li": ("li", "p"),
    "tr": _ROWS,
    "option": ("option",),
    "optgroup": ("option", "optgroup"),
}
"""Open elements that a start tag ends by implication, by its name."""
_SCOPES = frozenset(("table", "ul", "ol", "dl", "menu", "select", "button", "template", "object", "svg", "math"))
"""Elements that limit which open elements a start tag can end."""
_ASCII_SPACE = r"[ \t\r\n\f]"
_SPACE = (
    r"(?:[^\S \t\r\n\f]|&(?:nbsp|emsp|ensp|thinsp|ThinSpace|hairsp|VeryThinSpace|numsp|puncsp|emsp1[34]|MediumSpace|"
    r"NonBreakingSpace|#0{,4}(?:160|819[2-9]|820[0-2]|8239|8287|12288)|#[xX]0{,4}(?:[aA]0|200[0-9aA]|20[25][fF]|3000));)"
)
_UNSEEN = r"[\xad\u200b]|&(?:shy|ZeroWidthSpace|#173|#8203|#[xX][aA][dD]|#[xX]200[bB]);"
_IN_NUMBERS = r"(?:[\xa0\u2009\u202f]|&(?:nbsp|thinsp|#160|#8201|#8239|#[xX](?:[aA]0|2009|202[fF]));)"
_NUMBER = rf"(?<!\d)\d{{1,3}}(?:{_IN_NUMBERS}\d{{3}})+(?!\d)"
_AMONG_WORDS = re.compile(rf"({_NUMBER}|(?<!{_ASCII_SPACE})(?:{_ASCII_SPACE}*+{_SPACE})+{_ASCII_SPACE}*+|{_UNSEEN})")
_DELIMITERS = "<?=%->{} \t\r\n;"
_SHOWN = re.compile(r"^<\?(?:php)?\s*(?:echo|print)\b")
_SHOWN_CHARACTERS = 40
_READ_ATTRIBUTES = ("alt", "title", "placeholder", "aria-label")


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read an HTML file; see `Format`."""
    source = EncodedText.decode(raw, settings.encoding or declared_encoding(raw))
    edits = html_edits(source.text, depth=settings.limits.depth)
    return SplicedDocument(source, edits, is_html=True, errors="xmlcharrefreplace")


def declared_encoding(raw: bytes) -> str | None:
    """Return the name of the encoding that a page declares, by the rules of browsers; None: none."""
    declared = _DECLARED.search(_COMMENT.sub(b"", raw[:_PRESCANNED_BYTES]))
    if declared is None:
        return None
    name = (declared[1] or declared[2]).decode("ascii").lower()
    return _DECLARED_AS.get(name, name)


def html_edits(text: str, *, depth: int, is_xml: bool = False, has_links: bool = False) -> list[Edit]:
    """Return the edits of a document or a part of one.

    Args:
        text: HTML.
        depth: Limit of untranslated elements inside one another.
        is_xml: Whether it is XHTML.
        has_links: Whether links and images of Markdown in it stay.

    Raises:
        DocumentError: The limit is exceeded.
    """
    blocks = _Blocks(text, depth)
    for token in html_tokens(text, is_xml=is_xml, has_links=has_links):
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
        """Elements that are open from the outermost untranslated one on."""
        self._open: Counter[str] = Counter()
        """Elements that are open around it, by name."""
        self._code: Token | None = None
        """Start of the outermost one, if sentences go through it."""
        self._code_edits: tuple[Edit, ...] = ()
        self._code_text: list[str] = []

    def take(self, token: Token) -> None:
        """Go on with a token."""
        if self._skipped and self._skip(token):
            return
        if token.kind is TokenKind.TEXT:
            self._words(token)
        elif token.kind is TokenKind.OUTPUT:
            self._add(Kind.CODE, token, text=_SHOWN.sub("", token.raw).strip(_DELIMITERS)[:_SHOWN_CHARACTERS])
        elif token.kind is TokenKind.START:
            self._start(token)
        elif token.kind is TokenKind.END and token.name in INLINE:
            self._add(Kind.CLOSE, token)
        elif token.raw.startswith("<!--") or token.name in INLINE:
            self._add(Kind.LONE, token)
        else:
            self._flush()
        if token.kind is TokenKind.END and self._open[token.name]:
            self._open[token.name] -= 1

    def _words(self, token: Token) -> None:
        """Add words, special white space, soft hyphens, and numbers with spaces."""
        at = token.start
        for number, raw in enumerate(_AMONG_WORDS.split(token.raw)):
            text = unescaped(raw)
            part = Token(kind=TokenKind.TEXT, start=at, raw=raw)
            at += len(raw)
            if number % 2 == 0 and raw:
                self._add(Kind.TEXT, part, text=flowing(text))
            elif text.isspace():
                self._add(Kind.SPACE, part)
            elif raw:
                # A number is shown with commas, which any model reads.
                text = re.sub(r"\s", ",", text) if text[0].isdigit() else ""
                self._add(Kind.CODE if text else Kind.LONE, part, text=text)

    def finish(self) -> None:
        """End the current block at the end of the text."""
        self._end_code(len(self._text))
        self._flush()

    def _start(self, token: Token) -> None:
        attributes = {name: attribute.value for name, attribute in token.attributes().items()}
        is_marked = (
            attributes.get("translate", "").strip().lower() == "no"
            or "notranslate" in attributes.get("class", "").split()
        )
        is_void = token.name in VOID
        is_code = not is_void and (token.name in _UNTRANSLATED or is_marked)
        edits = () if is_marked else tuple(_attribute_edits(token))
        if is_code:
            self._enter(token.name)
        elif not is_void:
            self._open[token.name] += 1
        if token.name not in INLINE:
            self._flush()
            self.edits += (replace(edit, start=edit.start + token.start, end=edit.end + token.start) for edit in edits)
        elif is_code:
            self._code, self._code_edits, self._code_text = token, edits, []
        else:
            self._add(Kind.LONE if is_void else Kind.OPEN, token, edits=edits)

    def _skip(self, token: Token) -> bool:
        """Go on with an untranslated element; return whether the token is in it."""
        if token.kind is TokenKind.TEXT:
            self._code_text.append(token.raw)
        elif token.kind is TokenKind.START and token.name not in VOID:
            self._end(self._ended_by(token.name), token.start)
            if not self._skipped:
                return False
            if not (token.raw.endswith("/>") and self._skipped[0] in ("svg", "math")):
                self._enter(token.name)
        elif token.kind is TokenKind.END and token.name in self._skipped:
            place = len(self._skipped) - 1 - self._skipped[::-1].index(token.name)
            self._end(place, token.end)
        elif token.kind is TokenKind.END and self._is_ended_by(token.name):
            self._end(0, token.start)
            return False
        return True

    def _is_ended_by(self, name: str) -> bool:
        """Return whether the end of an element around the outermost one ends that as well."""
        if not self._open[name] or (name in INLINE and self._skipped[0] not in INLINE):
            return False
        return not any(each in _SCOPES for each in self._skipped)

    def _ended_by(self, name: str) -> int:
        """Return the place of the outermost element that a start tag ends; behind the innermost, if it ends none."""
        ended, place = _ENDED_BY.get(name, ()), len(self._skipped)
        for number in range(place - 1, -1, -1):
            if self._skipped[number] in ended:
                place = number
            elif self._skipped[number] in _SCOPES:
                break
        return place

    def _end(self, place: int, end: int) -> None:
        """End open elements from one on, at an index of the text."""
        del self._skipped[place:]
        if not self._skipped:
            self._end_code(end)

    def _enter(self, name: str) -> None:
        self._skipped.append(name)
        if len(self._skipped) > self._depth:
            raise DocumentError(f"elements are nested more than {self._depth} deep")

    def _end_code(self, end: int) -> None:
        if self._code:
            raw = self._text[self._code.start : end]
            whole = Token(kind=TokenKind.TEXT, start=self._code.start, raw=raw)
            text = flowing(unescaped("".join(self._code_text)))
            is_reading = self._code.name in _READINGS
            self._add(Kind.LONE if is_reading else Kind.CODE, whole, text=text, edits=self._code_edits)
            self._code = None

    def _add(self, kind: Kind, token: Token, *, text: str = "", edits: tuple[Edit, ...] = ()) -> None:
        span = {"start": token.start, "end": token.end}
        self._pieces.append(Piece(kind=kind, raw=token.raw, text=text, name=token.name, edits=edits, **span))

    def _flush(self) -> None:
        pieces, self._pieces = self._pieces, []
        kept = references("".join(piece.raw for piece in pieces if piece.kind is Kind.TEXT), plain="\"'")
        self.edits += block_edits(self._text, pieces, partial(_composed, kept))


def _composed(kept: Mapping[int, str], pieces: Sequence[Piece], _replaced: Sequence[Piece]) -> str:
    return "".join(
        markup_text(piece.text).translate(kept) if piece.kind is Kind.TEXT else piece.raw for piece in pieces
    )


def _attribute_edits(tag: Token) -> Iterator[Edit]:
    for name, attribute in tag.attributes().items():
        text = attribute.value.strip()
        if name in _READ_ATTRIBUTES and attribute.is_quoted and translatable(text):
            yield Edit(start=attribute.start, end=attribute.end, texts=(markup_text(text),), render=_attribute)


def _attribute(found: tuple[str, ...]) -> str:
    return html.escape(unescaped(found[0]))
