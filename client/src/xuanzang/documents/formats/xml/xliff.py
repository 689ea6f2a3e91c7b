"""XLIFF (.xliff, .xlf; versions 1.2 and 2): empty targets are filled from their sources; all other bytes stay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xuanzang.documents.document import IN_MESSAGES, Document, DocumentError, ReadSettings
from xuanzang.documents.formats.xml.xml_tokens import Token, decoded_xml, escaped, tokens, unescaped
from xuanzang.documents.splicing import Edit, SplicedDocument, flowing, parted, translatable

_UNITS = ("trans-unit", "segment")
_NATIVE = ("ph", "it", "bpt", "ept", "sub", "cp", "sc", "ec", "x", "bx", "ex")
"""Elements that hold the codes of another format, or nothing."""
_UNFINISHED = ("new", "needs-translation", "initial")


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read an XLIFF file; see `Format`."""
    source = decoded_xml(raw, settings.encoding, depth=settings.limits.depth)
    reader = _Reader(list(tokens(source.text)), source.text)
    edits = list(reader.edits())
    if not reader.is_xliff:
        raise DocumentError("no XLIFF file: its root is not <xliff>")
    return SplicedDocument(source, edits, placeholders=IN_MESSAGES, errors="xmlcharrefreplace")


@dataclass(slots=True, kw_only=True)
class _Unit:
    """A unit while it is read: indices of its tokens."""

    source: tuple[int, int] | None = None
    target: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Part of a source: markup to copy, or text to translate."""

    raw: str
    text: str | None = None
    is_cdata: bool = False


@dataclass(slots=True, kw_only=True)
class _Element:
    name: str
    start: int
    translated: bool
    unit: _Unit = field(default_factory=_Unit)


class _Reader:
    """Walk over the tokens that finds units with an empty target."""

    def __init__(self, tokens: Sequence[Token], text: str) -> None:
        self._tokens = tokens
        self._text = text
        self._open: list[_Element] = []
        self.is_xliff = False

    def edits(self) -> Iterator[Edit]:
        """Yield an edit for each unit to translate."""
        for index, token in enumerate(self._tokens):
            if token.is_start:
                self._enter(index, token)
            if token.is_end:
                yield from self._leave(index)

    def _enter(self, index: int, token: Token) -> None:
        self.is_xliff = self.is_xliff or (not self._open and token.name == "xliff")
        inherited = self._open[-1].translated if self._open else True
        wish = token.attributes.get("translate")
        self._open.append(
            _Element(name=token.name, start=index, translated=inherited if wish is None else wish == "yes")
        )

    def _leave(self, index: int) -> Iterator[Edit]:
        element = self._open.pop()
        parent = self._open[-1] if self._open else element
        if parent.name in _UNITS and element.name == "source":
            parent.unit.source = (element.start, index)
        elif parent.name in _UNITS and element.name == "target":
            parent.unit.target = (element.start, index)
        elif element.name in _UNITS and element.translated:
            yield from self._edit(element.unit)

    def _edit(self, unit: _Unit) -> Iterator[Edit]:
        if unit.source is None or not self._is_empty(unit.target):
            return
        pieces = list(_pieces(self._tokens[unit.source[0] + 1 : unit.source[1]]))
        texts = tuple(piece.text for piece in pieces if piece.text is not None)
        if texts:
            start, end, opening, closing = self._place(unit.source, unit.target)
            yield Edit(
                start=start,
                end=end,
                texts=texts,
                render=lambda found: opening + _rendered(pieces, found) + closing,
                fills=True,
            )

    def _is_empty(self, target: tuple[int, int] | None) -> bool:
        if target is None or self._tokens[target[0]].attributes.get("state") in _UNFINISHED:
            return True
        return all(token.is_text and not token.raw.strip() for token in self._tokens[target[0] + 1 : target[1]])

    def _place(self, source: tuple[int, int], target: tuple[int, int] | None) -> tuple[int, int, str, str]:
        """Return the span of the target with its tags, or where it belongs, and what goes around the translation."""
        opening, closing = (self._tokens[index] for index in target or source)
        tag = opening.raw.removesuffix("/>").removesuffix(">").rstrip()
        name = re.split(r"[\s/>]", opening.raw[1:], maxsplit=1)[0]
        if target:
            return opening.start, closing.end, f"{tag}>", f"</{name}>"
        name = name.removesuffix("source") + "target"
        before = self._tokens[source[0] - 1]
        indent = before.raw if before.is_text and not before.raw.strip() else ""
        return closing.end, closing.end, f"{indent}<{name}>", f"</{name}>"


def _pieces(source: Sequence[Token]) -> Iterator[_Piece]:
    """Yield the parts of a source's content."""
    native = 0  # depth inside elements whose content is not translated
    for token in source:
        if token.is_start and (native or token.name in _NATIVE or _is_protected(token)):
            native += 1
        if native or not (token.is_text or token.raw.startswith("<![CDATA[")):
            yield _Piece(raw=token.raw)
        else:
            yield from _text_pieces(token)
        if token.is_end and native:
            native -= 1


def _text_pieces(token: Token) -> Iterator[_Piece]:
    is_cdata = not token.is_text
    content = token.raw[9:-3] if is_cdata else unescaped(token.raw)
    text = flowing(content).strip()
    if not translatable(text):
        yield _Piece(raw=token.raw)
        return
    before, _, after = parted(content)
    yield _Piece(raw=before)
    yield _Piece(raw=token.raw, text=text, is_cdata=is_cdata)
    yield _Piece(raw=after)


def _is_protected(token: Token) -> bool:
    attributes = token.attributes
    return attributes.get("mtype") == "protected" or attributes.get("translate") == "no"


def _rendered(pieces: Sequence[_Piece], found: Sequence[str]) -> str:
    translations = iter(found)
    written = []
    for piece in pieces:
        if piece.text is None:
            written.append(piece.raw)
        elif piece.is_cdata:
            written.append("<![CDATA[" + next(translations).replace("]]>", "]]]]><![CDATA[>") + "]]>")
        else:
            written.append(escaped(next(translations)))
    return "".join(written)
