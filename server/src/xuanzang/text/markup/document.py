"""Documents: blocks of plain text with the places of their tags, and the markup between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

ESCAPED: Mapping[str, str] = MappingProxyType({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""Characters that markup writes otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inline:
    """An element within a block, or a part of one; a tag without content; or content that is not translated."""

    start: int
    """First character of the block's text that it is around."""
    end: int
    """Character after the last one; `start` if it encloses nothing."""
    opening: str
    """Characters before its content; all of an untranslated part."""
    closing: str = ""
    """Characters after its content."""
    children: tuple[Inline, ...] = ()
    is_verbatim: bool = False
    """True if the translation of its text is replaced by `opening`."""
    reaches_start: bool = False
    """True if it began in an earlier block, so it encloses everything before its end."""
    reaches_end: bool = False
    """True if it ends in a later block, so it encloses everything after its start."""
    placeholder: str = ""
    """Placeholder that the text of the element stands in for; empty if it is none."""
    is_ordered: bool = False
    """True if a placeholder must keep its place among the others of its sentence that are ordered."""
    is_space: bool = False
    """True if it takes the place of a space."""
    nested: tuple[str | Block, ...] = ()
    """Parts of a placeholder that are translated, and those between them; `opening` is made of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Text that is cut into sentences, and its tags."""

    text: str
    """Text without tags, with characters instead of references."""
    inlines: tuple[Inline, ...]
    spellings: Mapping[str, Sequence[str]]
    """References, in their order, for each character that is written so."""
    starts: Sequence[int]
    """First character of the content that each character was read from."""
    ends: Sequence[int]
    """The one after the last."""
    escapes: Mapping[str, str]
    """Characters of the translation that the content writes otherwise."""

    @property
    def holds_references(self) -> bool:
        """True if the content is a text for programs, whose references are placeholders, and no markup."""
        return self.escapes is not ESCAPED

    def in_content(self, start: int, end: int) -> tuple[int, int]:
        """Return the characters of the content between the first and the last of some characters of the text."""
        return self.starts[start], self.ends[end - 1]
