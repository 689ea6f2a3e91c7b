"""Translations of blocks with their tags."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from xuanzang.server.engine.markup.document import Block
from xuanzang.server.engine.markup.placement import Placed

_ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_BESIDE_WORDS = re.compile(r"[^\W_\u2e80-\uffef\U00020000-\U0003ffff]")


class _Speller:
    """Writes text as markup: characters that the content wrote as references are written so again."""

    def __init__(self, spellings: Mapping[str, Sequence[str]]) -> None:
        self._spellings = {character: deque(references) for character, references in spellings.items()}
        special = "".join(map(re.escape, {*_ESCAPED, *spellings}))
        self._special = re.compile(f"[{special}]")

    def spell(self, text: str) -> str:
        return self._special.sub(lambda match: self._reference(match.group()), text)

    def _reference(self, character: str) -> str:
        references = self._spellings.get(character)
        if not references:
            return _ESCAPED[character]
        # The last one serves for all that the translation has more of.
        return references.popleft() if len(references) > 1 else references[0]


def rendered(text: str, inlines: Sequence[Placed], block: Block, *, spaced: bool) -> str:
    """Write a translation with its tags.

    Args:
        text: Translation of a block.
        inlines: Elements at their places.
        block: The block.
        spaced: Whether the language has spaces between words.
    """
    writer = _Writer(text, block, spaced=spaced)
    return "".join(writer.written(inlines, 0, len(text)))


class _Writer:
    """Writes parts of a translation with their tags, from left to right."""

    def __init__(self, text: str, block: Block, *, spaced: bool) -> None:
        self._text = text
        self._source = block.text
        self._spaced = spaced
        self._speller = _Speller(block.spellings)

    def written(self, placed: Sequence[Placed], start: int, end: int) -> Iterator[str]:
        for element in placed:
            yield self._speller.spell(self._text[start : element.start])
            start = element.end
            if element.inline.is_verbatim:
                before, after = _spaces(self._text, element, self._source) if self._spaced else ("", "")
                yield f"{before}{element.inline.opening}{after}"
            else:
                yield element.inline.opening
                yield from self.written(element.children, element.start, element.end)
                yield element.inline.closing
        yield self._speller.spell(self._text[start:end])


def _spaces(text: str, element: Placed, source: str) -> tuple[str, str]:
    """Return the spaces that part what is not translated from the words beside it, unless the source has it so."""
    inline = element.inline
    before = _touches(text[max(0, element.start - 1) : element.start], source[max(0, inline.start - 1) : inline.start])
    after = _touches(text[element.end : element.end + 1], source[inline.end : inline.end + 1])
    return " " * before, " " * after


def _touches(character: str, original: str) -> bool:
    return bool(_BESIDE_WORDS.match(character)) and not _BESIDE_WORDS.match(original)
