"""Blocks, built of their tokens."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from xuanzang.server.engine.markup.document import Block, Inline, Places, Run
from xuanzang.server.engine.markup.tokens import MarkupError, MarkupToken
from xuanzang.server.engine.markup.white_space import without_line_breaks

MAX_INLINE_DEPTH = 100
"""Maximum elements within one another among the text of a block."""


@dataclass(slots=True, kw_only=True)
class _Open:
    """An element whose end has not come yet."""

    name: str = ""
    raw: str = ""
    start: int = 0
    inlines: list[Inline] = field(default_factory=list)

    def without_end(self) -> list[Inline]:
        """Return its start tag alone, and what is within."""
        return [Inline(start=self.start, end=self.start, opening=self.raw), *self.inlines]


class BlockBuilder:
    """Builds one block, token by token."""

    def __init__(self, start: int) -> None:
        """Begin with an empty block.

        Args:
            start: Its place in the content.
        """
        self._place = start
        self._runs: list[Run] = []
        self._raw: list[str] = []
        self._texts: list[str] = []
        self._length = 0
        self._spellings: defaultdict[str, list[str]] = defaultdict(list)
        self._open = [_Open()]
        self._strays = 0
        self._is_translated = False

    def add_text(self, token: MarkupToken) -> None:
        """Add text, or a reference."""
        self._take(token.raw, token.text)
        self._is_translated |= not token.text.isspace()
        if token.raw[0] == "&" and token.raw != token.text and len(token.text) == 1:
            self._spellings[token.text].append(token.raw)

    def add_verbatim(self, raw: str, text: str = "") -> None:
        """Add what is not translated: a tag without content, a comment, or an element with its text."""
        start = self._length
        self._take(raw, text)
        self._add(Inline(start=start, end=self._length, opening=raw, is_verbatim=bool(text)))

    def open(self, token: MarkupToken) -> None:
        """Add the start tag of an element."""
        if len(self._open) > MAX_INLINE_DEPTH:
            raise MarkupError(f"must have at most {MAX_INLINE_DEPTH} inline elements within one another")
        self._pass(token.raw)
        self._open.append(_Open(name=token.name, raw=token.raw, start=self._length))

    def close(self, token: MarkupToken) -> None:
        """Add the end tag of an element."""
        self._pass(token.raw)
        names = [element.name for element in self._open[1:]]
        if token.name in names:
            while self._open[-1].name != token.name:
                # HTML may have tags that cross; those stay where they are.
                crossing = self._open.pop().without_end()
                self._open[-1].inlines += crossing
            self._close(token.raw)
        elif names or self._strays == MAX_INLINE_DEPTH:
            self._add(Inline(start=self._length, end=self._length, opening=token.raw))
        else:
            self._strays += 1
            root = self._open[0]
            around = Inline(
                start=0,
                end=self._length,
                opening="",
                closing=token.raw,
                children=tuple(root.inlines),
                reaches_start=True,
            )
            root.inlines = [around]

    def build(self) -> list[str | Block]:
        """Return the block, or its characters if there is nothing to translate."""
        if not self._is_translated:
            return ["".join(self._raw)] if self._raw else []
        while len(self._open) > 1:
            self._close("", reaches_end=True)
        text, inlines, kept = without_line_breaks("".join(self._texts), self._open[0].inlines)
        places = Places(runs=tuple(self._runs), kept=kept)
        return [Block(text=text, inlines=inlines, spellings=dict(self._spellings), places=places)]

    def _pass(self, raw: str) -> None:
        self._raw.append(raw)
        self._place += len(raw)

    def _take(self, raw: str, text: str) -> None:
        if text:
            self._runs.append(Run(self._length, self._length + len(text), self._place, self._place + len(raw)))
        self._pass(raw)
        self._texts.append(text)
        self._length += len(text)

    def _add(self, inline: Inline) -> None:
        self._open[-1].inlines.append(inline)

    def _close(self, closing: str, *, reaches_end: bool = False) -> None:
        element = self._open.pop()
        self._add(
            Inline(
                start=element.start,
                end=self._length,
                opening=element.raw,
                closing=closing,
                children=tuple(element.inlines),
                reaches_end=reaches_end,
            )
        )
