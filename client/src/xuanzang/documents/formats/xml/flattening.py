"""The content of an XML paragraph as a row of items: words with their formatting, and the objects among them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import groupby

from lxml import etree

from xuanzang.documents.formats.xml.trees import Element
from xuanzang.documents.formats.xml.vocabulary import Role, Vocabulary

HYPHEN = "\uffff"
"""Character, forbidden in XML, that stands for the element of a no-break hyphen."""
_COLUMN_WIDTH = 3
"""Spaces that divide columns: the texts before and after them are translated apart."""
_SHOWN_CHARACTERS = 40
"""Longest displayed content of an object that is sent as part of its sentence."""
_COLLAPSING = re.compile(r"[ \t\r\n]+")
# A text is cut at white space other than a space between words, and numbers with spaces are whole; all in linear time.
_WHITE_SPACE = re.compile(r"((?<!\d)\d{1,3}(?:[\u00a0\u2009\u202f]\d{3})+(?!\d)|\A\s+|\s{2,}|[^\S ]|\s\Z)")
_IN_NUMBERS = re.compile(r"[\u00a0\u2009\u202f]")
_HARD_BREAK = re.compile(r"((?:_x005F_x[0-9A-Fa-f]{4}_|_x[0-9A-Fa-f]{4}_|[\r\n])+)")


class ItemKind(Enum):
    """Kind of an item."""

    TEXT = auto()
    SPACE = auto()
    """White space other than a single space."""
    LONE = auto()
    """An object, with the characters that it displays."""
    OPEN = auto()
    CLOSE = auto()
    BREAK = auto()
    """End of a text."""
    DROPPED = auto()
    EDGE = auto()
    """End of a range whose other end is elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Formatting of words."""

    run: Element | None = None
    """Run to copy around them; None: no run."""
    tag: str | None = None
    """Tag of their element; None: they are characters between tags."""
    key: bytes = b""
    """Visible properties."""


PLAIN = Look()

_Node = tuple[Element | None, Element]
"""An element, with the run that it is in, if it is in one."""
_FIELD = "a field"
_FIELDS = ("w:fldSimple",)
_FIELD_NAME = re.compile(r'[^\s\\"]+')
_FIELDS_OF_WORDS = frozenset(("HYPERLINK", "FORMTEXT", "FILLIN", "QUOTE", "IF", "TOC"))
"""Names of fields whose words the author wrote, or whose words are headings; Word computes those of all others anew."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Item:
    """A part of a paragraph."""

    kind: ItemKind
    text: str = ""
    """Its characters, if it has no elements; else the characters that an object displays."""
    look: Look = PLAIN
    nodes: tuple[_Node, ...] = ()
    """Its elements."""
    inner: Element | None = None
    """Element around the content between the two items of a pair."""
    pair: int = 0
    """Number of a pair of items that open and close something."""
    is_end: bool = False
    """True for the second item of a pair, and the end of a range."""
    is_field: bool = False
    """True if its words are a field's."""
    is_computed: bool = False
    """True if they are computed, so that they stay."""
    items: tuple[Item, ...] = ()
    """Its parts, if it is a group."""

    @property
    def is_white(self) -> bool:
        """True if it separates words like a space."""
        return self.kind is ItemKind.SPACE or (bool(self.items) and not self.text.strip() and self.text != "")


_KINDS = {
    Role.TRAVELS: ItemKind.LONE,
    Role.SHOWN: ItemKind.LONE,
    Role.SPACE: ItemKind.SPACE,
    Role.DROPPED: ItemKind.DROPPED,
}


def flattened(vocabulary: Vocabulary, paragraph: Element) -> list[Item]:
    """Return the items of a paragraph without changing it."""
    walk = _Walk(vocabulary)
    walk.content(paragraph, None)
    walk.end_instruction()
    return _with_pairs(list(_with_spaces(walk.items)))


def content_of(element: Element) -> str:
    """Return the characters of an element without comments."""
    return (element.text or "") + "".join(child.tail or "" for child in element)


class _Walk:
    """Collects the items of a paragraph in the order of its elements."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.items: list[Item] = []
        self._vocabulary = vocabulary
        self._keys: dict[Element, bytes] = {}
        """Looks by run."""
        self._instruction: list[_Node] = []
        """Nodes of a field whose instruction is under way."""
        self._open: list[tuple[str, int]] = []
        """Keys of open ranges (empty for open elements), with the indices of their items."""
        self._starts: dict[str, int] = {}
        """Indices of the starts of open ranges, by key."""

    def content(self, parent: Element, run: Element | None) -> None:
        """Continue with the content of an element."""
        is_mixed = self._vocabulary.is_mixed
        if is_mixed:
            self._words(parent.text or "", PLAIN)
        for child in parent:
            self._child(child, run)
            if is_mixed:
                self._words(child.tail or "", PLAIN)

    def end_instruction(self) -> None:
        """End texts where an instruction is not followed by the words of its field."""
        nodes, self._instruction = self._instruction, []
        self.items += (Item(kind=ItemKind.BREAK, nodes=(node,)) for node in nodes)

    def _child(self, child: Element, run: Element | None) -> None:
        name = self._vocabulary.name(child)
        role = self._vocabulary.role(name)
        if self._instruction and role is Role.INSTRUCTION:
            self._instruction.append((run, child))
            return
        if self._instruction and role not in (Role.RUN, Role.HEAD, Role.DROPPED, Role.FIELD):
            self.end_instruction()
        if role is Role.RUN:
            for part in child:
                self._child(part, child)
        elif role in (Role.TEXT, Role.HYPHEN):
            self._text(role, child, run)
        elif role in (Role.INLINE, Role.FIELD, Role.RANGE_START, Role.RANGE_END):
            self._paired(role, name, (run, child))
        elif role is not Role.HEAD:
            kind = _KINDS.get(role, ItemKind.BREAK)
            self.items.append(Item(kind=kind, nodes=((run, child),), text=self._shown(role, child)))

    def _text(self, role: Role, element: Element, run: Element | None) -> None:
        if role is Role.TEXT:
            self._words(content_of(element), self._look(run, str(element.tag)))
        else:
            self._words(HYPHEN, self._look(run, f"{{{etree.QName(element).namespace}}}t"))

    def _paired(self, role: Role, name: str, node: _Node) -> None:
        if role is Role.INLINE:
            self._inline(name, node)
        elif role is Role.FIELD:
            self._field(node)
        else:
            self._range(name, node, is_end=role is Role.RANGE_END)

    def _shown(self, role: Role, element: Element) -> str:
        if role is Role.SPACE:
            width = self._vocabulary.attribute(element, "text:c") or "1"
            return " " * (int(width) if width in ("0", "1", "2") else _COLUMN_WIDTH)
        text = "".join(element.itertext(etree.Element)).strip() if role is Role.SHOWN else ""
        return text if len(text) <= _SHOWN_CHARACTERS else ""

    def _look(self, run: Element | None, tag: str) -> Look:
        if run is None:
            return Look(tag=tag)
        if run not in self._keys:
            self._keys[run] = self._vocabulary.look_key(run)
        return Look(run=run, tag=tag, key=self._keys[run])

    def _words(self, text: str, look: Look) -> None:
        if self._vocabulary.is_mixed:
            text = _COLLAPSING.sub(" ", text)
        stretches = _HARD_BREAK.split(text) if self._vocabulary.lines_break else [text]
        for number, stretch in enumerate(stretches):
            if number % 2:
                self.items.append(Item(kind=ItemKind.BREAK, text=stretch, look=look))
                continue
            for words in filter(None, _WHITE_SPACE.split(stretch)):
                item = Item(kind=ItemKind.TEXT, text=words, look=look)
                if _IN_NUMBERS.search(words) and not words.isspace():
                    item = Item(kind=ItemKind.LONE, text=_IN_NUMBERS.sub(",", words), items=(item,))
                self.items.append(item)

    def _inline(self, name: str, node: _Node) -> None:
        _, element = node
        wanted = self._vocabulary.inner.get(name)
        inner = next((each for each in element if self._vocabulary.name(each) == wanted), None) if wanted else element
        if inner is None:
            self.items.append(Item(kind=ItemKind.BREAK, nodes=(node,)))
            return
        pair = len(self.items) + 1
        self._open.append(("", pair))
        start = Item(kind=ItemKind.OPEN, nodes=(node,), inner=inner, pair=pair)
        if name in _FIELDS:
            start = _of_field(start, self._vocabulary.attribute(element, "w:instr") or "")
        self.items.append(start)
        self.content(inner, None)
        self.end_instruction()
        # Ranges that are open within the element end elsewhere.
        while self._open.pop()[0]:
            continue
        self.items.append(Item(kind=ItemKind.CLOSE, inner=inner, pair=pair, is_end=True))

    def _range(self, name: str, node: _Node, *, is_end: bool) -> None:
        keys = (self._vocabulary.attribute(node[1], key) for key in self._vocabulary.range_keys)
        key = f"{self._vocabulary.ranges.get(name, name)} {next(filter(None, keys), '')}"
        if is_end:
            self._close(key, node)
        else:
            self._begin(key, Item(kind=ItemKind.EDGE, nodes=(node,)))

    def _begin(self, key: str, start: Item) -> None:
        """Add the start of a range, of its kind until the end is found."""
        self._open.append((key, len(self.items)))
        self.items.append(start)

    def _close(self, key: str, node: _Node) -> None:
        """Add the end of a range: the second item of a pair if the innermost open range is this one."""
        kind = ItemKind.BREAK if key == _FIELD else ItemKind.EDGE
        if self._open and self._open[-1][0] == key:
            place = self._open.pop()[1]
            pair = place + 1
            self.items[place] = replace(self.items[place], kind=ItemKind.OPEN, pair=pair)
            self.items.append(Item(kind=ItemKind.CLOSE, nodes=(node,), pair=pair, is_end=True))
        else:
            self.items.append(Item(kind=kind, nodes=(node,), is_end=True))

    def _field(self, node: _Node) -> None:
        step = self._vocabulary.attribute(node[1], "w:fldCharType")
        if step == "begin":
            self.end_instruction()
            self._instruction.append(node)
        elif step == "separate" and self._instruction:
            nodes, self._instruction = (*self._instruction, node), []
            instruction = "".join(content_of(part) for _, part in nodes)
            self._begin(_FIELD, _of_field(Item(kind=ItemKind.BREAK, nodes=nodes), instruction))
        elif self._instruction:
            nodes, self._instruction = (*self._instruction, node), []
            self.items.append(Item(kind=ItemKind.LONE, nodes=nodes))
        else:
            self._close(_FIELD, node)


def _of_field(start: Item, instruction: str) -> Item:
    """Return the start of a field with what its instruction says of its words."""
    name = _FIELD_NAME.match(instruction.lstrip())
    is_computed = name is not None and name[0].upper() not in _FIELDS_OF_WORDS
    return replace(start, is_field=True, is_computed=is_computed)


def _with_spaces(items: Sequence[Item]) -> Iterator[Item]:
    """Yield items, with white space other than a single space as an object or as the end of a text."""
    for is_white, group in groupby(items, _may_be_white):
        spaces = list(group)
        width = sum(len(space.text) for space in spaces) if is_white else 0
        text = "".join(space.text for space in spaces) if is_white else ""
        is_element = any(space.kind is ItemKind.SPACE for space in spaces)
        if not is_white or not text or (text == " " and not is_element):
            yield from spaces
        else:
            kind = ItemKind.BREAK if width >= _COLUMN_WIDTH or "\t" in text else ItemKind.SPACE
            yield Item(kind=kind, text=text, items=tuple(spaces))


def _may_be_white(item: Item) -> bool:
    return item.kind in (ItemKind.SPACE, ItemKind.DROPPED) or (item.kind is ItemKind.TEXT and item.text.isspace())


@dataclass(slots=True)
class _Frame:
    """Content of an open pair."""

    place: int
    has_break: bool = False
    has_words: bool = False
    has_letters: bool = False


def _with_pairs(items: Sequence[Item]) -> list[Item]:
    """Return items whose pairs enclose words and no end of a text."""
    result: list[Item] = []
    frames = [_Frame(0)]
    for item in items:
        result.append(item)
        frame = frames[-1]
        if item.kind is ItemKind.OPEN:
            frames.append(_Frame(len(result) - 1))
        elif item.kind is ItemKind.CLOSE:
            closed = frames.pop()
            if not result[closed.place].is_computed:
                frames[-1].has_break |= closed.has_break
                frames[-1].has_words |= closed.has_words
                frames[-1].has_letters |= closed.has_letters
            _close(result, closed)
        else:
            frame.has_break |= item.kind is ItemKind.BREAK
            frame.has_words |= item.kind is ItemKind.TEXT and not item.text.isspace()
            frame.has_letters |= item.kind is ItemKind.TEXT and any(map(str.isalpha, item.text))
    return result


def _close(items: list[Item], frame: _Frame) -> None:
    """Turn the last pair into ends of texts or an object, unless it is markup around words."""
    first = items[frame.place]
    if frame.has_break and not first.is_computed:
        items[frame.place] = replace(first, kind=ItemKind.BREAK)
        items[-1] = replace(items[-1], kind=ItemKind.BREAK)
    elif first.is_computed or not frame.has_words or (first.is_field and not frame.has_letters):
        within = tuple(items[frame.place :])
        text = "".join(item.text for item in within).replace(HYPHEN, "-")
        items[frame.place :] = [Item(kind=ItemKind.LONE, text=text[:_SHOWN_CHARACTERS], items=within)]
