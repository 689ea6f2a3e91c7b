"""XLIFF (.xliff, .xlf; versions 1.2 and 2): empty targets are filled from their sources; all other bytes stay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from xuanzang.documents.document import IN_MESSAGES, Document, DocumentError, ReadSettings
from xuanzang.documents.formats.blocks import Kind, Piece, block_edits, markup_text, tag_fault
from xuanzang.documents.formats.html_tokens import unescaped as unescaped_html
from xuanzang.documents.formats.messages.accelerators import unmarked
from xuanzang.documents.formats.xml.xml_tokens import Token, decoded_xml, escaped, tokens, unescaped
from xuanzang.documents.splicing import Edit, SplicedDocument, flowing, spliced

_UNITS = ("trans-unit", "segment")
_NATIVE = ("ph", "it", "bpt", "ept", "sub", "cp", "sc", "ec", "x", "bx", "ex")
"""Elements that hold the codes of another format, or nothing."""
_UNFINISHED = ("new", "needs-translation", "initial")
_STATE = re.compile(r"""(\sstate\s*=\s*["'])(?:new|needs-translation|initial)(?=["'])""")
_ELEMENT = re.compile(r'(<g id="\d+">|</g>|<img id="\d+">|<code id="\d+">[^<]*</code>)')
_NUMBER = re.compile(r'id="(\d+)"')
_MESSAGE_TAG = re.compile(r"(</?xliff\d+/?>|\{xliff\d+\})")
_OPENING_CODES = ("bpt", "bx", "sc")
_CLOSING_CODES = ("ept", "ex", "ec")
_X_PAIR = re.compile(r"(START|CLOSE)_(.+?)(?:_\d+)?")
"""Identifiers that Angular gives to the tags of an element."""
_SHOWN = ("equiv-text", "disp", "equiv")
"""Attributes that say what a code stands for."""
_MAX_OPEN = 32
"""Maximum codes that are open within a pair."""
_VALUE = re.compile(r"\s*(?!<)\S.*", re.DOTALL)
_CDATA = "<![CDATA["


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read an XLIFF file; see `Format`."""
    source = decoded_xml(raw, settings.encoding, depth=settings.limits.depth)
    reader = _Reader(list(tokens(source.text)), source.text, settings.target_language)
    edits = list(reader.edits())
    if not reader.is_xliff:
        raise DocumentError("no XLIFF file: its root is not <xliff>")
    if reader.lacks_language and any(edit.texts for edit in edits):
        raise DocumentError("XLIFF 2 needs its target language: name it, or add trgLang to <xliff>")
    edits.sort(key=lambda edit: edit.start)
    return SplicedDocument(source, edits, placeholders=IN_MESSAGES, errors="xmlcharrefreplace")


@dataclass(slots=True, kw_only=True)
class _Unit:
    """A unit under way: indices of the first and last token of its parts, by their names."""

    parts: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Element:
    name: str
    start: int
    is_translated: bool
    is_preserved: bool
    """True if its white space counts."""
    unit: _Unit


class _Reader:
    """Walk over the tokens that finds units with an empty target.

    Args:
        language: Code of the target language; None: unknown.
    """

    def __init__(self, tokens: Sequence[Token], text: str, language: str | None) -> None:
        self._tokens = tokens
        self._text = text
        self._language = language
        self._open: list[_Element] = []
        self.is_xliff = False
        self.lacks_language = False
        """True if the file must name the target language, which is unknown."""

    def edits(self) -> Iterator[Edit]:
        """Yield the edits of all units, and the edits that name the target language."""
        for index, token in enumerate(self._tokens):
            if token.is_start:
                yield from self._enter(index, token)
            if token.is_end:
                yield from self._leave(index)

    def _enter(self, index: int, token: Token) -> Iterator[Edit]:
        attributes = token.attributes
        is_root = not self._open
        if is_root and token.name == "xliff":
            self.is_xliff = True
            if attributes.get("version", "").startswith("2"):
                yield from self._named(token, attributes, "trgLang")
        elif token.name == "file" and "source-language" in attributes and self._language:
            yield from self._named(token, attributes, "target-language")
        outer = None if is_root else self._open[-1]
        wish, space = attributes.get("translate"), attributes.get("xml:space")
        self._open.append(
            _Element(
                name=token.name,
                start=index,
                is_translated=wish == "yes" if wish else outer is None or outer.is_translated,
                is_preserved=space == "preserve" if space else outer is not None and outer.is_preserved,
                unit=_Unit(),
            )
        )

    def _named(self, token: Token, attributes: Mapping[str, str], name: str) -> Iterator[Edit]:
        """Yield an edit that names the target language in a tag without it."""
        if name in attributes:
            return
        if self._language is None:
            self.lacks_language = True
            return
        at = token.end - (2 if token.raw.endswith("/>") else 1)
        written = f' {name}="{escaped(self._language)}"'
        yield Edit(start=at, end=at, texts=(), render=lambda _found: written)

    def _leave(self, index: int) -> Iterator[Edit]:
        element = self._open.pop()
        outer = self._open[-1] if self._open else element
        if outer.name in _UNITS and element.name in ("source", "seg-source", "target"):
            outer.unit.parts[element.name] = (element.start, index)
            if element.name != "target" and element.is_preserved:
                outer.unit.parts["preserved"] = (element.start, index)
        elif element.name in _UNITS and element.is_translated:
            yield from self._edit(element)

    def _edit(self, element: _Element) -> Iterator[Edit]:
        parts = element.unit.parts
        source, target = parts.get("seg-source", parts.get("source")), parts.get("target")
        if source is None or not self._is_unfinished(element, target):
            return
        content = self._text[self._tokens[source[0]].end : self._tokens[source[1]].start]
        offset = self._tokens[source[0]].end
        inner = list(self._inner_edits(self._tokens[source[0] + 1 : source[1]], is_preserved="preserved" in parts))
        texts = tuple(text for edit in inner for text in edit.texts)
        if texts:
            moved = [replace(edit, start=edit.start - offset, end=edit.end - offset) for edit in inner]
            start, end, opening, closing = self._place(element, target)
            render = partial(_rendered, content, moved, texts, (opening, closing))
            yield Edit(start=start, end=end, texts=texts, render=render, fills=True)

    def _is_unfinished(self, element: _Element, target: tuple[int, int] | None) -> bool:
        """Return whether a unit needs a translation."""
        if target is None:
            return True
        states = {self._tokens[index].attributes.get("state") for index in (element.start, target[0])}
        if not states.isdisjoint(_UNFINISHED):
            return True
        content = self._tokens[target[0] + 1 : target[1]]
        return all(token.name == "mrk" or (token.is_text and not token.raw.strip()) for token in content)

    def _place(self, element: _Element, target: tuple[int, int] | None) -> tuple[int, int, str, str]:
        """Return the span from the unit's tag to its target, and the text around the translation."""
        parts = element.unit.parts
        unit, source = self._tokens[element.start], parts["source"]
        last = self._tokens[(target or parts.get("seg-source", source))[1]]
        start = unit.start
        head = _STATE.sub(r"\g<1>translated", unit.raw)
        opening = self._tokens[(target or source)[0]]
        name = re.split(r"[\s/>]", opening.raw[1:], maxsplit=1)[0]
        if target:
            tag = _STATE.sub(r"\g<1>translated", opening.raw.removesuffix("/>").removesuffix(">").rstrip())
            return start, last.end, head + self._text[unit.end : opening.start] + f"{tag}>", f"</{name}>"
        name = name.removesuffix("source") + "target"
        before = self._tokens[source[0] - 1]
        indent = before.raw if before.is_text and not before.raw.strip() else ""
        space = opening.attributes.get("xml:space")
        tag = f'<{name} xml:space="{escaped(space)}">' if space else f"<{name}>"
        return start, last.end, head + self._text[unit.end : last.end] + f"{indent}{tag}", f"</{name}>"

    def _inner_edits(self, content: Sequence[Token], *, is_preserved: bool) -> Iterator[Edit]:
        """Yield the edits of a source's content."""
        for block in _blocks(content, is_preserved=is_preserved):
            yield from map(unmarked, map(_as_message, block_edits(self._text, block, _composed)))


def _rendered(
    content: str, inner: Sequence[Edit], texts: Sequence[str], around: tuple[str, str], found: tuple[str, ...]
) -> str:
    written = spliced(content, inner, dict(zip(texts, found, strict=True)))
    return around[0] + written + around[1]


def _blocks(content: Sequence[Token], *, is_preserved: bool) -> Iterator[list[Piece]]:
    """Yield the pieces of each segment of a source, and of each line where white space counts."""
    block: list[Piece] = []
    markers = {token.attributes.get("startRef"): place for place, token in enumerate(content) if token.name == "em"}
    pairs = _pairs(content)
    number = 0
    while number < len(content):
        token = content[number]
        is_segment = token.name == "mrk" and (token.is_end or token.attributes.get("mtype") == "seg")
        last = _untranslated_end(content, number, markers)
        if last is not None:
            text = "".join(map(_text, content[number : last + 1]))
            raw = "".join(each.raw for each in content[number : last + 1])
            name = ""
            if number in pairs:
                kind, name = pairs[number]
            elif token.name in _NATIVE:
                text = _value(token, text)
                kind = Kind.CODE if text else Kind.LONE
            else:
                kind = Kind.CODE if text.strip() else Kind.LONE
            block.append(Piece(kind=kind, start=token.start, end=content[last].end, raw=raw, text=text, name=name))
            number = last
        elif token.is_text or token.raw.startswith(_CDATA):
            for piece in _lines(token) if is_preserved else [_piece(token)]:
                if piece.text == "\n":
                    yield block
                    block = []
                else:
                    block.append(piece)
        elif is_segment and not (token.is_end and any(piece.name == "mrk" for piece in block)):
            yield block
            block = []
        else:
            kind = Kind.OPEN if token.is_start and not token.is_end else Kind.CLOSE if token.is_end else Kind.LONE
            kind = Kind.LONE if token.raw.endswith("/>") else kind
            block.append(Piece(kind=kind, start=token.start, end=token.end, raw=token.raw, name=token.name))
        number += 1
    yield block


def _pairs(content: Sequence[Token]) -> dict[int, tuple[Kind, str]]:
    """Return the codes that begin and end the same markup, as <bpt> and <ept>, by their indices: kinds and names.

    Pairs that would cross an element or another pair stay codes of their own.
    """
    pairs: dict[int, tuple[Kind, str]] = {}
    opened: list[tuple[int, str]] = []
    """Indices and keys of codes that are open, and of elements, whose keys are empty."""
    for number, token in enumerate(content):
        is_empty = token.is_start and token.is_end
        if token.name in _NATIVE:
            kind, key = _side(token)
            if token.is_start and kind is Kind.OPEN:
                opened.append((number, key))
            elif token.is_start and kind is Kind.CLOSE:
                place = _opened_at(opened, key)
                if place is not None:
                    start = opened[place][0]
                    pairs |= {start: (Kind.OPEN, f"code {start}"), number: (Kind.CLOSE, f"code {start}")}
                    del opened[place:]
        elif token.is_start and not is_empty:
            opened.append((number, ""))
        elif token.is_end and not is_empty:
            while opened and opened.pop()[1]:
                pass
    return pairs


def _opened_at(opened: Sequence[tuple[int, str]], key: str) -> int | None:
    """Return the place of the last open code with a key, if no element was opened after it."""
    for place in range(len(opened) - 1, max(-1, len(opened) - 1 - _MAX_OPEN), -1):
        if opened[place][1] == key:
            return place
        if not opened[place][1]:
            break
    return None


def _side(token: Token) -> tuple[Kind, str]:
    """Return whether a code begins or ends markup, and a key that both ends have."""
    attributes = token.attributes
    name = attributes.get("id", "")
    if token.name in _OPENING_CODES:
        return Kind.OPEN, attributes.get("rid", name) or "-"
    if token.name in _CLOSING_CODES:
        return Kind.CLOSE, attributes.get("startRef") or attributes.get("rid", name) or "-"
    named = _X_PAIR.fullmatch(name) if token.name == "x" else None
    if named:
        return (Kind.OPEN if named[1] == "START" else Kind.CLOSE), named[2]
    return Kind.LONE, ""


def _value(token: Token, text: str) -> str:
    """Return the characters of a value that a code stands for, such as %s; empty if it stands for markup."""
    attributes = token.attributes
    shown = next((attributes[name] for name in _SHOWN if attributes.get(name)), text or attributes.get("id", ""))
    is_value = token.name in ("x", "ph", "it") and "ctype" not in attributes and _VALUE.fullmatch(unescaped(shown))
    return unescaped(shown) if is_value else ""


def _untranslated_end(content: Sequence[Token], first: int, markers: Mapping[str | None, int]) -> int | None:
    """Return the index of the last token of something that is not translated; None: the token begins no such thing.

    Args:
        markers: Indices of the <em>, by the <sm> that they end.
    """
    token = content[first]
    if not token.is_start:
        return None
    attributes = token.attributes
    is_protected = attributes.get("mtype") == "protected" or attributes.get("translate") == "no"
    if token.name == "sm" and is_protected:
        return max(first, markers.get(attributes.get("id"), first))
    if token.name not in _NATIVE and not is_protected:
        return None
    depth = 0
    for number in range(first, len(content)):
        depth += content[number].is_start - content[number].is_end
        if depth == 0:
            return number
    return first


def _text(token: Token) -> str:
    if token.raw.startswith(_CDATA):
        return token.raw[len(_CDATA) : -len("]]>")]
    return unescaped(token.raw) if token.is_text else ""


def _piece(token: Token) -> Piece:
    name = "cdata" if token.raw.startswith(_CDATA) else ""
    text = flowing(_text(token))
    return Piece(kind=Kind.TEXT, start=token.start, end=token.end, raw=token.raw, text=text, name=name)


def _lines(token: Token) -> Iterator[Piece]:
    """Yield the lines of a text, and their ends."""
    if token.raw.startswith(_CDATA):
        yield _piece(token)
        return
    at = token.start
    for raw in re.split(r"(\r\n?|\n)", token.raw):
        text = "\n" if raw in ("\n", "\r", "\r\n") else unescaped(raw)
        yield Piece(kind=Kind.TEXT, start=at, end=at + len(raw), raw=raw, text=text)
        at += len(raw)


def _composed(pieces: Sequence[Piece], replaced: Sequence[Piece]) -> str:
    if all(piece.name == "cdata" for piece in replaced):
        text = "".join(piece.text for piece in pieces)
        return _CDATA + text.replace("]]>", f"]]]]>{_CDATA}>") + "]]>"
    return "".join(escaped(piece.text) if piece.kind is Kind.TEXT else piece.raw for piece in pieces)


def _as_message(edit: Edit) -> Edit:
    """Return an edit of a block whose texts are messages of a program instead of HTML, so that ICU syntax counts."""
    texts = tuple(map(_message, edit.texts))
    return replace(edit, texts=texts, render=lambda found: edit.render(tuple(map(_markup, found, edit.texts))))


def _message(markup: str) -> str:
    """Return a text of a block with tags such as <xliff1> for its elements."""
    opened: list[str] = []
    written = []
    for number, part in enumerate(_ELEMENT.split(markup)):
        if number % 2 == 0:
            written.append(unescaped_html(part))
        elif part == "</g>":
            written.append(f"</xliff{opened.pop()}>")
        else:
            [name] = _NUMBER.findall(part)[:1]
            opened += [name] if part.startswith("<g") else []
            written.append(_message_tag(part))
    return "".join(written)


def _markup(translation: str, source: str) -> str:
    """Return a translation of a message as a text of its block.

    Raises:
        DocumentError: It has other elements than the source.
    """
    elements = {_message_tag(part): part for part in _ELEMENT.findall(source) if part != "</g>"}
    parts = _MESSAGE_TAG.split(translation)
    written = "".join(
        markup_text(part)
        if number % 2 == 0
        else "</g>"
        if part.startswith("</")
        else elements.get(part, markup_text(part))
        for number, part in enumerate(parts)
    )
    if fault := tag_fault(source, written):
        raise DocumentError(fault)
    return written


def _message_tag(element: str) -> str:
    [name] = _NUMBER.findall(element)[:1]
    if element.startswith("<code"):
        return f"{{xliff{name}}}"
    return f"<xliff{name}>" if element.startswith("<g") else f"<xliff{name}/>"
