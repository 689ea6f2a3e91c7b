"""ICU messages, parsed: literal text, which is translated, and the syntax around it, which stays.

Source: the grammar of MessageFormat in the ICU user guide, with apostrophes that quote only before syntax.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

_COMPLEX = re.compile(r"\{\s*[\w.-]+\s*,\s*(?:plural|selectordinal|select|choice)\s*,")
_ARGUMENT = re.compile(r"\{\s*(?P<name>[\w.-]+)\s*(?:\}|,\s*(?P<kind>\w+)\s*(?P<rest>[,}]))")
_OFFSET = re.compile(r"\s*(?:offset:\s*\d+\s*)?")
_SELECTOR = re.compile(r"\s*(?:=\d+|[^\s{}=']{1,64})\s*\{")
_LIMIT = re.compile(r"\s*[-+]?(?:\d+(?:\.\d+)?|∞)\s*[#<≤]")
_QUOTED = re.compile(r"'([{}#|][^']*(?:''[^']*)*)(?:'|$)")
_MAX_DEPTH = 20


class Literal(NamedTuple):
    """Text that is translated."""

    raw: str
    text: str
    """The text that the characters stand for."""


class Syntax(NamedTuple):
    """Unchanged characters within a sentence: an argument, the number of a plural, or quoted syntax."""

    raw: str


@dataclass(frozen=True, slots=True)
class Choice:
    """An argument with a message for each case."""

    parts: tuple[str | Message, ...]
    """Messages, and the syntax between them."""

    @property
    def raw(self) -> str:
        """Characters of the message."""
        return "".join(part if isinstance(part, str) else raw_of(part) for part in self.parts)


Message: TypeAlias = "tuple[Literal | Syntax | Choice, ...]"
"""Parts of a message, in its order."""

ESCAPES = {"'": "''", "{": "'{'", "}": "'}'"}
"""Characters of a literal that are written otherwise in a message."""


def raw_of(message: Message) -> str:
    """Return the characters of a message."""
    return "".join(part.raw for part in message)


def parse_message(text: str) -> Message | None:
    """Parse a text that has an argument with cases; None if it has none, or is no message."""
    if not _COMPLEX.search(text):
        return None
    parser = _Parser(text)
    try:
        message = parser.message(0, in_plural=False, ends="")
    except _SyntaxError:
        return None
    return message if parser.place == len(text) else None


class _SyntaxError(ValueError):
    """A text is no message."""


class _Parser:
    """Parser that looks at each character once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.place = 0

    def message(self, depth: int, *, in_plural: bool, ends: str) -> Message:
        """Parse up to one of some characters, or to the end of the text if there are none."""
        if depth > _MAX_DEPTH:
            raise _SyntaxError
        text, parts = self._text, list[Literal | Syntax | Choice]()
        special = re.compile(f"[{{}}'{'#' if in_plural else ''}{re.escape(ends)}]")
        while self.place < len(text):
            found = special.search(text, self.place)
            end = found.start() if found else len(text)
            if self.place < end:
                parts.append(Literal(text[self.place : end], text[self.place : end]))
                self.place = end
            if found is None or (found[0] in ends and found[0] != "'"):
                break
            parts.append(self._special(depth, found[0], in_plural=in_plural))
        return tuple(parts)

    def _special(self, depth: int, mark: str, *, in_plural: bool) -> Literal | Syntax | Choice:
        text, place = self._text, self.place
        if mark == "'":
            quoted = _QUOTED.match(text, place)
            raw = text[place : place + 2] if text.startswith("''", place) else quoted[0] if quoted else "'"
            self.place += len(raw)
            return Syntax(raw) if quoted and raw == quoted[0] else Literal(raw, "'")
        if mark == "#":
            self.place += 1
            return Syntax("#")
        argument = _ARGUMENT.match(text, place) if mark == "{" else None
        if argument is None:
            raise _SyntaxError
        self.place = argument.end()
        if argument["kind"] in ("plural", "selectordinal", "select") and argument["rest"] == ",":
            return self._choice(argument[0], depth, in_plural=in_plural or argument["kind"] != "select")
        if argument["kind"] == "choice" and argument["rest"] == ",":
            return self._limits(argument[0], depth)
        if argument["rest"] == ",":
            end = text.find("}", self.place)
            if end < 0 or "{" in text[self.place : end]:
                raise _SyntaxError
            self.place = end + 1
        return Syntax(text[place : self.place])

    def _choice(self, opening: str, depth: int, *, in_plural: bool) -> Choice:
        parts: list[str | Message] = [opening]
        offset = _OFFSET.match(self._text, self.place)
        start, self.place = self.place, offset.end() if offset else self.place
        while selector := _SELECTOR.match(self._text, self.place):
            parts.append(self._text[start : selector.end()])
            self.place = selector.end()
            parts.append(self.message(depth + 1, in_plural=in_plural, ends="}"))
            start = self.place
            self._take("}")
        if len(parts) == 1:
            raise _SyntaxError
        self._skip_space()
        self._take("}")
        parts.append(self._text[start : self.place])
        return Choice(tuple(parts))

    def _limits(self, opening: str, depth: int) -> Choice:
        parts: list[str | Message] = [opening]
        start = self.place
        while limit := _LIMIT.match(self._text, self.place):
            parts.append(self._text[start : limit.end()])
            self.place = limit.end()
            parts.append(self.message(depth + 1, in_plural=False, ends="|}"))
            start = self.place
            if self._text[self.place : self.place + 1] != "|":
                break
            self.place += 1
        if len(parts) == 1:
            raise _SyntaxError
        self._take("}")
        parts.append(self._text[start : self.place])
        return Choice(tuple(parts))

    def _take(self, character: str) -> None:
        if self._text[self.place : self.place + 1] != character:
            raise _SyntaxError
        self.place += 1

    def _skip_space(self) -> None:
        while self._text[self.place : self.place + 1].isspace():
            self.place += 1
