"""Tags and texts of HTML with their places, found by the parser of the standard library."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from html.parser import HTMLParser


class TokenKind(Enum):
    """What a token is."""

    TEXT = auto()
    START = auto()
    END = auto()
    OTHER = auto()
    """A comment, a declaration, an instruction, or an empty element of a drawing or formula."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A tag, or a text between tags."""

    kind: TokenKind
    start: int
    """Index of its first character."""
    raw: str
    """Its characters."""
    name: str = ""
    """Name of a tag, in lower case."""
    attributes: Mapping[str, str | None] = field(default_factory=dict)
    """Attributes of a start tag."""

    @property
    def end(self) -> int:
        """Index after its last character."""
        return self.start + len(self.raw)


class _Places(HTMLParser):
    """Records where each tag and each stretch of text begins."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[tuple[int, TokenKind, str, Mapping[str, str | None]]] = []
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self.feed(text)
        self.close()

    def _add(self, kind: TokenKind, name: str = "", attrs: list[tuple[str, str | None]] | None = None) -> None:
        line, column = self.getpos()
        if kind is not TokenKind.TEXT or not self.found or self.found[-1][1] is not TokenKind.TEXT:
            self.found.append((self._lines[line - 1] + column, kind, name, dict(attrs or ())))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(TokenKind.START, tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # Browsers read <p/> as <p>; <svg/> is empty.
        self._add(TokenKind.OTHER if tag in ("svg", "math") else TokenKind.START, tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self._add(TokenKind.END, tag)

    def handle_data(self, data: str) -> None:  # noqa: ARG002
        self._add(TokenKind.TEXT)

    def handle_entityref(self, name: str) -> None:  # noqa: ARG002
        self._add(TokenKind.TEXT)

    def handle_charref(self, name: str) -> None:  # noqa: ARG002
        self._add(TokenKind.TEXT)

    def handle_comment(self, data: str) -> None:  # noqa: ARG002
        self._add(TokenKind.OTHER)

    def handle_decl(self, decl: str) -> None:  # noqa: ARG002
        self._add(TokenKind.OTHER)

    def handle_pi(self, data: str) -> None:  # noqa: ARG002
        self._add(TokenKind.OTHER)

    def unknown_decl(self, data: str) -> None:  # noqa: ARG002
        self._add(TokenKind.OTHER)


def html_tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of HTML, a page or a part of one."""
    places = _Places(text).found
    starts = [*(start for start, *_ in places), len(text)]
    for (start, kind, name, attributes), following in zip(places, starts[1:], strict=True):
        if following > start:
            yield Token(kind=kind, start=start, raw=text[start:following], name=name, attributes=attributes)
