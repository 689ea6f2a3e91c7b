"""Table of an XML format: its paragraphs, the roles of the elements in them, and the elements left untouched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from xuanzang.documents.formats.xml.trees import Element


class Role(Enum):
    """Role of an element in a paragraph."""

    RUN = auto()
    """It holds texts of one formatting."""
    TEXT = auto()
    """Its characters are words, in a run or alone."""
    INLINE = auto()
    """It encloses words and moves with them."""
    HEAD = auto()
    """Properties: it stays the first child of its parent."""
    TRAVELS = auto()
    """An object among words, such as a picture or the mark of a note."""
    SHOWN = auto()
    """An object with characters that people see, such as an equation or a page number."""
    SPACE = auto()
    """It stands for spaces."""
    HYPHEN = auto()
    """A no-break hyphen."""
    DROPPED = auto()
    """A remark on the words that does not hold for their translation, such as a rendered page break."""
    BREAK = auto()
    """A text ends before it, and another begins after it."""
    RANGE_START = auto()
    RANGE_END = auto()
    FIELD = auto()
    """It begins, divides or ends a field of Word."""
    INSTRUCTION = auto()
    """Part of the instruction of a field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Elements of a format, named "prefix:name" with the prefixes of `prefixes`."""

    prefixes: Mapping[str, str]
    """Prefixes by namespace; several namespaces may have one prefix."""
    paragraphs: frozenset[str]
    """Elements that hold one text or several."""
    roles: Mapping[str, Role]
    """Roles of elements in paragraphs."""
    other: Role
    """Role of elements in paragraphs that are not in the table."""
    others: Mapping[str, Role] = field(default_factory=dict)
    """The same by prefix."""
    is_mixed: bool = False
    """True if words are characters between tags, with collapsing white space; False: only TEXT elements hold words."""
    inner: Mapping[str, str] = field(default_factory=dict)
    """Name of the child that holds the words, by inline element."""
    untouched: frozenset[str] = frozenset()
    """Elements whose paragraphs are left alone."""
    attributes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Attributes with text for readers, by element, each with its maximum number of characters; 0: unlimited."""
    range_keys: tuple[str, ...] = ()
    """Attributes that identify a range, the same at its start and end."""
    unseen: frozenset[str] = frozenset()
    """Elements ("a:b") and attributes ("a:b@c", or "@c" of any element) without visible effect."""
    empty_unseen: frozenset[str] = frozenset()
    """Elements without visible effect if they are empty."""
    ranges: Mapping[str, str] = field(default_factory=dict)
    """Name of the range by the elements at its ends."""
    longest: int = 0
    """Maximum number of characters in a paragraph, which otherwise stays and is reported; 0: unlimited."""
    lines_break: bool = False
    """True if a line end among words is a hard one."""

    def name(self, element: Element) -> str:
        """Return the name of an element; "" for a comment or an instruction."""
        tag = element.tag
        if not isinstance(tag, str):
            return ""
        namespace, _, local = tag.rpartition("}")
        return f"{self.prefixes.get(namespace[1:], '?')}:{local}"

    def role(self, name: str) -> Role:
        """Return the role of an element in a paragraph by its name."""
        if not name:
            return Role.DROPPED
        return self.roles.get(name) or self.others.get(name.partition(":")[0], self.other)

    def attribute(self, element: Element, name: str) -> str | None:
        """Return the value of an attribute by its name with a prefix, or without one."""
        return element.get(self.attribute_key(element, name))

    def attribute_key(self, element: Element, name: str) -> str:
        """Return the name of an attribute with its namespace, as the element has it."""
        prefix, _, local = name.rpartition(":")
        if not prefix:
            return local
        found = (
            key
            for key in map(str, element.attrib)
            if key.rpartition("}")[2] == local and self.prefixes.get(key.rpartition("}")[0][1:]) == prefix
        )
        return next(found, local)

    def look_key(self, run: Element) -> bytes:
        """Return the visible properties of a run."""
        heads = [child for child in run if self.role(self.name(child)) is Role.HEAD]
        return b"".join(self._seen(head) for head in heads)

    def _seen(self, element: Element) -> bytes:
        """Return the visible part of an element in a canonical spelling."""
        name = self.name(element)
        if not name or name in self.unseen:
            return b""
        local = {key: key.rpartition("}")[2] for key in element.attrib}
        attributes = sorted(
            f"{key}={value}" for key, value in element.attrib.items() if not self._is_unseen(name, local[key])
        )
        within = b"".join(map(self._seen, element))
        if not attributes and not within and name in self.empty_unseen:
            return b""
        return f"<{name} {' '.join(attributes)}>{(element.text or '').strip()}".encode() + within + b"</>"

    def _is_unseen(self, name: str, attribute: str) -> bool:
        return f"@{attribute}" in self.unseen or f"{name}@{attribute}" in self.unseen
