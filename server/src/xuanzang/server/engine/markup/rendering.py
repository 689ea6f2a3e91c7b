"""Translations of blocks with their tags."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

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


def rendered(text: str, inlines: Sequence[Placed], *, spellings: Mapping[str, Sequence[str]], spaced: bool) -> str:
    """Write a translation with its tags.

    Args:
        text: Translation of a block.
        inlines: Elements at their places.
        spellings: References, in their order, for each character that the block has written so.
        spaced: Whether the language has spaces between words.

    Returns:
        Markup.
    """
    speller = _Speller(spellings)

    def written(placed: Sequence[Placed], start: int, end: int) -> Iterator[str]:
        for element in placed:
            yield speller.spell(text[start : element.start])
            start = element.end
            if element.inline.is_verbatim:
                before, after = _spaces(text, element) if spaced else ("", "")
                yield f"{before}{element.inline.opening}{after}"
            else:
                yield element.inline.opening
                yield from written(element.children, element.start, element.end)
                yield element.inline.closing
        yield speller.spell(text[start:end])

    return "".join(written(inlines, 0, len(text)))


def _spaces(text: str, element: Placed) -> tuple[str, str]:
    """Return spaces between words and what is put there without any of them making room."""
    if element.start < element.end:
        return "", ""
    before, after = text[: element.start][-1:], text[element.end :][:1]
    return " " if _BESIDE_WORDS.match(before) else "", " " if _BESIDE_WORDS.match(after) else ""
