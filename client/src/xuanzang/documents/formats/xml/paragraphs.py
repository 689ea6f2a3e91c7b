"""Paragraphs of XML: neighbouring words form one text to translate; formatting, links and objects are its markup."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import groupby

from lxml import etree

from xuanzang.documents.formats.blocks import Kind, Piece, decoded, encoded, tag_fault
from xuanzang.documents.formats.xml.flattening import HYPHEN, PLAIN, Item, ItemKind, Look, flattened
from xuanzang.documents.formats.xml.spreadsheets import KeptTexts
from xuanzang.documents.formats.xml.trees import Element, without_forbidden
from xuanzang.documents.formats.xml.vocabulary import Role, Vocabulary
from xuanzang.documents.splicing import translatable

_SPACE_ATTRIBUTE = "{http://www.w3.org/XML/1998/namespace}space"
_HYPHENS = (HYPHEN, "\u2011")
_ESCAPE = re.compile(r"_(?=x[0-9A-Fa-f]{4}_)")


class Paragraph:
    """An element that holds one text or several.

    Args:
        element: The element; only `render` changes it.
        kept: Texts to leave alone.
    """

    def __init__(self, vocabulary: Vocabulary, element: Element, kept: KeptTexts) -> None:
        self._vocabulary = vocabulary
        self.element = element
        self._parts = list(_parts(flattened(vocabulary, element), kept))
        self.has_texts = any(isinstance(part, _Text) for part in self._parts)
        """True if there is a text to translate."""
        self.unwritten: tuple[str, ...] = ()
        """Texts whose translations the last `render` could not write."""

    def texts(self) -> Iterator[str]:
        """Yield the texts to translate."""
        return (part.text for part in self._parts if isinstance(part, _Text))

    def render(self, translations: Mapping[str, str]) -> bool:
        """Put translations into the element; return whether anything changed."""
        found = [part.found(translations) if isinstance(part, _Text) else "" for part in self._parts]
        changed = [isinstance(part, _Text) and part.text != text for part, text in zip(self._parts, found, strict=True)]
        longest = self._vocabulary.longest
        if not any(changed):
            return False
        if longest and sum(map(len, found)) > longest:
            self.unwritten = tuple(self.texts())
            return False
        writer = _Writer(self._vocabulary, self.element)
        for part, text, is_changed in zip(self._parts, found, changed, strict=True):
            if isinstance(part, Item):
                if part.kind is not ItemKind.DROPPED:
                    writer.item(part)
            elif is_changed:
                part.write(text, writer)
            else:
                for item in part.items:
                    writer.item(item)
        writer.finish()
        return True


def _parts(items: Sequence[Item], kept: KeptTexts) -> Iterator[Item | _Text]:
    """Yield the texts of a paragraph, and the items outside of them."""
    for is_break, group in groupby(items, lambda item: item.kind is ItemKind.BREAK):
        row = list(group)
        if is_break:
            yield from row
            continue
        first, last = _bounds(row)
        words = "".join(item.text for item in row[first:last] if item.kind is ItemKind.TEXT)
        if not translatable(words) or words in kept:
            yield from row
            continue
        yield from row[:first]
        yield _Text(row[first:last])
        yield from row[last:]


def _bounds(row: Sequence[Item]) -> tuple[int, int]:
    """Return the range of items without the immovable ones at both ends."""
    first, last = 0, len(row)
    while first < last:
        if _is_idle(row[first]):
            first += 1
        elif _is_idle(row[last - 1]):
            last -= 1
        elif row[first].kind is ItemKind.OPEN and row[first].pair == row[last - 1].pair:
            first, last = first + 1, last - 1
        else:
            break
    return first, last


def _is_idle(item: Item) -> bool:
    if item.kind is ItemKind.TEXT:
        return item.text.isspace()
    is_plain = item.kind is ItemKind.LONE and not item.text.strip()
    return is_plain or item.kind in (ItemKind.SPACE, ItemKind.DROPPED, ItemKind.EDGE)


class _Text:
    """A text to translate, made of items; words in the commonest look around them are its plain text.

    Args:
        items: Items, from the first that has words to the last; pairs are whole.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self._bases = _bases(items)
        self._pieces: list[Piece] = []
        self._things: dict[int, Item | Look] = {}
        """Items and formatting behind the pieces that are tags, by their indices."""
        self._read()
        self.text = encoded(self._pieces)
        """The text as HTML."""

    def _read(self) -> None:
        within = [0]
        seen = (item for item in self.items if item.kind not in (ItemKind.DROPPED, ItemKind.EDGE))
        for (place, _), group in groupby(enumerate(seen), lambda each: _stretch(*each)):
            row = [item for _, item in group]
            if place < 0:
                self._words("".join(item.text for item in row), row[0].look, self._bases[within[-1]])
                continue
            [item] = row
            if item.kind is ItemKind.OPEN:
                within.append(item.pair)
                self._add(Kind.OPEN, item, name=str(item.pair))
            elif item.kind is ItemKind.CLOSE:
                within.pop()
                self._add(Kind.CLOSE, item, name=str(item.pair))
            elif item.is_white:
                self._add(Kind.SPACE, item)
            else:
                self._add(Kind.CODE if item.text.strip() else Kind.LONE, item, text=item.text)

    def _words(self, text: str, look: Look, base: Look) -> None:
        for hyphen in _HYPHENS:
            text = text.replace(hyphen, "-")
        if look.key == base.key or text.isspace():
            self._add(Kind.TEXT, text=text)
        else:
            self._add(Kind.OPEN, look, name="look")
            self._add(Kind.TEXT, text=text)
            self._add(Kind.CLOSE, look, name="look")

    def _add(self, kind: Kind, thing: Item | Look | None = None, *, text: str = "", name: str = "") -> None:
        place = len(self._pieces)
        self._pieces.append(Piece(kind=kind, start=place, end=place, raw="", text=text, name=name))
        if thing is not None:
            self._things[place] = thing

    def found(self, translations: Mapping[str, str]) -> str:
        """Return the translation; the text itself if there is none, or if it lost a tag and so would lose an object."""
        translation = translations.get(self.text, self.text)
        return self.text if tag_fault(self.text, translation) else translation

    def write(self, translation: str, writer: _Writer) -> None:
        """Write a translation with the objects among its words."""
        for item in self.items:
            if item.kind is ItemKind.EDGE and not item.is_end:
                writer.item(item)
        pieces = decoded(translation, self._pieces)
        hyphens = self._hyphens("".join(piece.text for piece in pieces if piece.kind is Kind.TEXT))
        looks = [self._bases[0]]
        for piece in pieces:
            thing = None if piece.kind is Kind.TEXT else self._things[piece.start]
            if thing is None:
                words = without_forbidden(piece.text)
                writer.words(re.sub("-", lambda _: next(hyphens), words), looks[-1])
                continue
            if isinstance(thing, Item):
                writer.item(thing)
            if piece.kind is Kind.OPEN:
                looks.append(thing if isinstance(thing, Look) else self._bases[thing.pair])
            elif piece.kind is Kind.CLOSE:
                looks.pop()
        for item in self.items:
            if item.kind is ItemKind.EDGE and item.is_end:
                writer.item(item)

    def _hyphens(self, translation: str) -> Iterator[str]:
        """Return the hyphens of a translation: those of the source if their number is the same."""
        source = "".join(item.text for item in self.items if item.kind is ItemKind.TEXT)
        found = [character for character in source if character == "-" or character in _HYPHENS]
        count = translation.count("-")
        return iter(found if len(found) == count else "-" * count)


def _stretch(place: int, item: Item) -> tuple[int, bytes]:
    """Return a key that only neighbouring words of one formatting share."""
    return (-1, item.look.key) if item.kind is ItemKind.TEXT else (place, b"")


def _bases(items: Sequence[Item]) -> dict[int, Look]:
    """Return the most common formatting outside of pairs (0) and within each pair."""
    if len(items) == 1:
        return {0: items[0].look}
    sizes: dict[int, Counter[bytes]] = {0: Counter()}
    looks: dict[int, dict[bytes, Look]] = {0: {}}
    within = [0]
    for item in items:
        if item.kind is ItemKind.OPEN:
            within.append(item.pair)
            sizes[item.pair], looks[item.pair] = Counter(), {}
        elif item.kind is ItemKind.CLOSE:
            within.pop()
        elif item.kind is ItemKind.TEXT:
            sizes[within[-1]][item.look.key] += len(item.text.strip())
            looks[within[-1]].setdefault(item.look.key, item.look)
    first = next(item.look for item in items if item.kind is ItemKind.TEXT)
    return {pair: looks[pair][max(size, key=size.__getitem__)] if size else first for pair, size in sizes.items()}


class _Writer:
    """Fills an element anew with the items of a paragraph.

    Args:
        element: Element to empty, except for its properties.
    """

    def __init__(self, vocabulary: Vocabulary, element: Element) -> None:
        self._vocabulary = vocabulary
        self._within = [element]
        self._run: tuple[Element, Element] | None = None
        """The current run of the source, and its copy."""
        self._words: list[str] = []
        """Pending words."""
        self._look = PLAIN
        self._empty(element)

    def item(self, item: Item) -> None:
        """Write an item unchanged."""
        for within in item.items:
            self.item(within)
        if item.items:
            return
        if item.inner is not None and item.is_end:
            self.finish()
            self._within.pop()
        for run, element in item.nodes:
            self.finish()
            element.tail = None
            self._place(run).append(element)
        if item.inner is not None and not item.is_end:
            self._empty(item.inner)
            self._within.append(item.inner)
            self._run = None
        if not item.nodes and item.text:
            self._add(item.text, item.look)

    def words(self, text: str, look: Look) -> None:
        """Write words of a translation."""
        self._add(_ESCAPE.sub("_x005F_", text) if self._vocabulary.lines_break else text, look)

    def finish(self) -> None:
        """Write the pending words into the element."""
        text, self._words = "".join(self._words), []
        if not text:
            return
        place = self._place(self._look.run)
        if self._look.tag is None:
            _append(place, text)
            return
        for number, words in enumerate(text.split(HYPHEN)):
            if number:
                etree.SubElement(place, self._look.tag.replace("}t", "}noBreakHyphen"))
            if words:
                element = etree.SubElement(place, self._look.tag)
                element.text = words
                if words != words.strip() or "  " in words:
                    element.set(_SPACE_ATTRIBUTE, "preserve")

    def _add(self, text: str, look: Look) -> None:
        if text and (look.run is not self._look.run or look.tag != self._look.tag):
            self.finish()
            self._look = look
        if text:
            self._words.append(text)

    def _place(self, run: Element | None) -> Element:
        """Return the element for the next content: a copy of the run, or the innermost element."""
        if run is None:
            self._run = None
            return self._within[-1]
        if self._run is None or self._run[0] is not run:
            copy = etree.SubElement(self._within[-1], run.tag, dict(run.attrib), nsmap=run.nsmap)
            copy.extend(deepcopy(child) for child in run if self._is_head(child))
            self._run = run, copy
        return self._run[1]

    def _empty(self, element: Element) -> None:
        element.text = None
        heads = [child for child in element if self._is_head(child)]
        for head in heads:
            head.tail = None
        element[:] = heads

    def _is_head(self, element: Element) -> bool:
        return self._vocabulary.role(self._vocabulary.name(element)) is Role.HEAD


def _append(element: Element, text: str) -> None:
    """Append characters to the content of an element."""
    if len(element):
        element[-1].tail = (element[-1].tail or "") + text
    else:
        element.text = (element.text or "") + text
