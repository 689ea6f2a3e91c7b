"""Tags and texts of HTML with their places, found as browsers do, in time that is linear in the text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

VOID = frozenset(("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"))
"""Elements without content."""

_ATTRIBUTE = r"""[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+"""
# What ends nowhere goes on to the end of the text, so that no end is looked for twice.
_MARKUP = re.compile(
    rf"<(?P<end>/?)(?P<name>[A-Za-z][^\s/>]*+)(?:{_ATTRIBUTE})*+[\s/]*+>"
    r"|<!--(?:-?>|.*?(?:--!?>|\Z))|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[!?/][^>]*+>",
    re.DOTALL,
)
# Python refuses to read thousands of digits.
_LONG_NUMBER = re.compile(r"(?<=&#)(?:([xX])([0-9a-fA-F]{20,}+)|([0-9]{20,}+))")
_BEGINNING = re.compile(r"<[A-Za-z!?/]")
_NAMED_VALUE = re.compile(r"""([^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>]*+)))?+""")
_WITHOUT_TAGS = ("script", "style", "textarea", "title")
"""Elements whose content ends at their end tag, whatever it looks like."""
_CLOSING = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in _WITHOUT_TAGS}


class TokenKind(Enum):
    """Kind of a token."""

    TEXT = auto()
    START = auto()
    END = auto()
    OTHER = auto()
    """A comment, a declaration, an instruction, or an empty element of a drawing or formula."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """An attribute with a value."""

    value: str
    """Its characters."""
    start: int
    """Index of the first character of its value in the tag."""
    end: int
    """Index after the last one."""
    is_quoted: bool
    """True if it is between quotation marks."""


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

    @property
    def end(self) -> int:
        """Index after its last character."""
        return self.start + len(self.raw)

    def attributes(self) -> Mapping[str, Attribute]:
        """Return the attributes of a start tag by their names in lower case; of several with one name the first."""
        found: dict[str, Attribute] = {}
        for match in _NAMED_VALUE.finditer(self.raw, 1 + len(self.name)):
            group = match.lastindex or 1
            start, end = match.span(group) if group > 1 else (match.end(), match.end())
            value, is_quoted = unescaped(self.raw[start:end]), group in (2, 3)
            found.setdefault(match[1].lower(), Attribute(value=value, start=start, end=end, is_quoted=is_quoted))
        return found


def html_tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of HTML, a page or a part of one; joined they are the text."""
    at = 0
    while (begin := _BEGINNING.search(text, at)) and (found := _MARKUP.match(text, begin.start())):
        if found.start() > at:
            yield Token(kind=TokenKind.TEXT, start=at, raw=text[at : found.start()])
        name = (found["name"] or "").lower()
        kind = _kind(found, name)
        yield Token(kind=kind, start=found.start(), raw=found[0], name=name)
        at = found.end()
        if kind is TokenKind.START and name in _WITHOUT_TAGS and not found[0].endswith("/>"):
            closing = _CLOSING[name].search(text, at)
            end = closing.start() if closing else len(text)
            if end > at:
                yield Token(kind=TokenKind.TEXT, start=at, raw=text[at:end])
            at = end
    if at < len(text):
        yield Token(kind=TokenKind.TEXT, start=at, raw=text[at:])


def unescaped(raw: str) -> str:
    """Return HTML with characters instead of its references, whatever their numbers are."""
    return html.unescape(_LONG_NUMBER.sub(_shortened, raw))


def _shortened(number: re.Match[str]) -> str:
    """Return the same number without zeros before it, or one that is too large, too."""
    return (number[1] or "") + ((number[2] or number[3]).lstrip("0")[:9] or "0")


def _kind(found: re.Match[str], name: str) -> TokenKind:
    if not name:
        return TokenKind.OTHER
    if found["end"]:
        return TokenKind.END
    # Browsers read <p/> as <p>; <svg/> is empty.
    return TokenKind.OTHER if name in ("svg", "math") and found[0].endswith("/>") else TokenKind.START
