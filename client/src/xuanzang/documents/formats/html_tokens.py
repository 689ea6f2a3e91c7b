"""Tags and texts of HTML with their places, found as browsers do, in time that is linear in the text.

Directives of template languages (PHP, ERB, ASP, Jinja, Liquid, Handlebars) run before a browser sees the page. They are
found first and count as characters of the surrounding markup.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

VOID = frozenset(("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"))
"""Elements without content."""

_ATTRIBUTE = r"""[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+"""
# A part without an end extends to the end of the text, so no end is searched for twice.
_MARKUP = re.compile(
    rf"<(?P<end>/?)(?P<name>[A-Za-z][^\s/>]*+)(?:{_ATTRIBUTE})*+[\s/]*+>"
    r"|<!--(?:-?>|.*?(?:--!?>|\Z))|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[!?/][^>]*+>",
    re.DOTALL,
)
_MASK = "\ufdd1"
"""Character, in no text, that stands for those of directives."""
_MASKED_OR_NOT = re.compile(rf"{_MASK}+|[^{_MASK}]+")
_CLOSED_BY = {"<?": "?>", "<%": "%>", "<<": ">>", "{{{": "}}}", "{{": "}}", "{%": "%}", "{#": "#}"}
# Fields of mail merge have names; two other brackets are text and a tag.
_DIRECTIVE = re.compile(r"<[?%]|<<(?=[A-Za-z_][\w .:-]{0,80}>>)|\{\{\{?|\{[%#]")
# Links and images of Markdown between tags.
_LINK = re.compile(
    r"!?\[[^\[\]]*+\]\([^()\s]*+(?:[ \t]++\"[^\"\r\n]{0,200}\")?\)(?:\{[^{}\r\n]*+\})?|" + _DIRECTIVE.pattern
)
_OUTPUT = re.compile(r"\{\{\{?(?![#/^!>])|<<|<%[=-]|<\?=|<\?(?:php)?\s+(?:echo|print)\b")
_BRACED_CHARACTERS = 1000
"""Longest directive in braces, which may be braces of something else."""
_REFERENCE = re.compile(r"&#?\w{1,32};")
# Python refuses to read thousands of digits.
_LONG_NUMBER = re.compile(r"(?<=&#)(?:([xX])([0-9a-fA-F]{20,}+)|([0-9]{20,}+))")
_BEGINNING = re.compile(r"<[A-Za-z!?/]")
_NAMED_VALUE = re.compile(r"""([^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>]*+)))?+""")
_WITHOUT_TAGS = ("script", "style", "textarea", "title", "xmp", "plaintext")
"""Elements whose content ends at their end tag, whatever it looks like."""
_CLOSING = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in _WITHOUT_TAGS}


class TokenKind(Enum):
    """Kind of a token."""

    TEXT = auto()
    START = auto()
    END = auto()
    OTHER = auto()
    """A comment, a declaration, or an empty element."""
    OUTPUT = auto()
    """A directive of a template whose output is among the words."""
    DIRECTIVE = auto()
    """Any other directive of a template, or an instruction."""


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
    masked: str = ""
    """Its characters, with other ones for directives."""

    @property
    def end(self) -> int:
        """Index after its last character."""
        return self.start + len(self.raw)

    def attributes(self) -> Mapping[str, Attribute]:
        """Return the attributes of a start tag by their names in lower case; of several with one name the first."""
        found: dict[str, Attribute] = {}
        for match in _NAMED_VALUE.finditer(self.masked or self.raw, 1 + len(self.name)):
            group = match.lastindex or 1
            start, end = match.span(group) if group > 1 else (match.end(), match.end())
            value, is_quoted = unescaped(self.raw[start:end]), group in (2, 3) and _MASK not in match[0]
            found.setdefault(match[1].lower(), Attribute(value=value, start=start, end=end, is_quoted=is_quoted))
        return found


def html_tokens(text: str, *, is_xml: bool = False, has_links: bool = False) -> Iterator[Token]:
    """Yield the tokens of HTML, a page or a part of one; joined they are the text.

    Args:
        is_xml: True for XHTML, where any element may be self-closing.
        has_links: True if links and images of Markdown count as directives.
    """
    masked, directives = _masked(text, _LINK if has_links else _DIRECTIVE)
    at = 0
    for start, end, name, kind in _tokens(masked, is_xml=is_xml):
        if kind is TokenKind.TEXT:
            yield from _words(text, masked, start, end, directives)
        else:
            yield Token(kind=kind, start=start, raw=text[start:end], name=name, masked=masked[start:end])
        at = end
    yield from _words(text, masked, at, len(text), directives)


def _tokens(text: str, *, is_xml: bool) -> Iterator[tuple[int, int, str, TokenKind]]:
    """Yield the beginnings, ends, names and kinds of tokens, but for a text at the end."""
    at = 0
    while (begin := _BEGINNING.search(text, at)) and (found := _MARKUP.match(text, begin.start())):
        if found.start() > at:
            yield at, found.start(), "", TokenKind.TEXT
        name = (found["name"] or "").lower()
        kind = _kind(found, name, is_xml=is_xml)
        at = found.end()
        yield found.start(), at, name, kind
        if kind is TokenKind.START and name in _WITHOUT_TAGS and not found[0].endswith("/>"):
            closing = _CLOSING[name].search(text, at)
            end = closing.start() if closing else len(text)
            if end > at:
                yield at, end, "", TokenKind.TEXT
            at = end


def _words(
    text: str, masked: str, start: int, end: int, directives: Mapping[int, tuple[int, TokenKind]]
) -> Iterator[Token]:
    """Yield the texts and directives of a span without tags."""
    for match in _MASKED_OR_NOT.finditer(masked, start, end):
        at, last = match.span()
        if masked[at] != _MASK:
            yield Token(kind=TokenKind.TEXT, start=at, raw=text[at:last], masked=match[0])
            continue
        while at < last:
            until, kind = directives[at]
            yield Token(kind=kind, start=at, raw=text[at:until], masked=masked[at:until])
            at = until


def _masked(text: str, pattern: re.Pattern[str]) -> tuple[str, dict[int, tuple[int, TokenKind]]]:
    """Return a text of the same length without directives, and their ends and kinds by their beginnings."""
    directives: dict[int, tuple[int, TokenKind]] = {}
    pieces: list[str] = []
    at = 0
    plain = text.replace(_MASK, "\ufffd")
    closings: dict[str, int] = {}
    while opening := pattern.search(text, at):
        start = opening.start()
        if opening[0].endswith((")", "}")):
            directives[start] = opening.end(), TokenKind.DIRECTIVE if opening[0][0] == "!" else TokenKind.OUTPUT
            pieces += plain[at:start], _MASK * len(opening[0])
            at = opening.end()
            continue
        closing = _CLOSED_BY[opening[0]]
        if closings.get(closing, 0) < opening.end():
            found = text.find(closing, opening.end())
            closings[closing] = len(text) if found < 0 else found
        end = closings[closing] + len(closing)
        if end > len(text) and text.startswith("<?php", start):
            end = len(text)  # PHP needs no closing at the end of a file
        is_long = opening[0].startswith("{") and end - start > _BRACED_CHARACTERS
        if end > len(text) or is_long:
            pieces.append(plain[at : opening.end()])
            at = opening.end()
            continue
        directives[start] = end, TokenKind.OUTPUT if _OUTPUT.match(text, start) else TokenKind.DIRECTIVE
        pieces += plain[at:start], _MASK * (end - start)
        at = end
    return "".join(pieces) + plain[at:], directives


def unescaped(raw: str) -> str:
    """Return HTML with characters instead of its references, whatever their numbers are."""
    return html.unescape(_LONG_NUMBER.sub(_shortened, raw))


def references(raw: str, *, plain: str = "") -> dict[int, str]:
    """Return the references of a text by their characters, for characters that never occur literally.

    Args:
        plain: Characters of ASCII whose references count, too.
    """
    found = {unescaped(match[0]): match[0] for match in _REFERENCE.finditer(raw)}
    literal = _REFERENCE.sub("", raw)
    return {
        ord(character): reference
        for character, reference in found.items()
        if len(character) == 1 and (character in plain or not character.isascii()) and character not in literal
    }


def _shortened(number: re.Match[str]) -> str:
    """Return the same number without zeros before it, or another that is also too large."""
    return (number[1] or "") + ((number[2] or number[3]).lstrip("0")[:9] or "0")


def _kind(found: re.Match[str], name: str, *, is_xml: bool) -> TokenKind:
    if not name:
        return TokenKind.OTHER
    if found["end"]:
        return TokenKind.END
    # Browsers read <p/> as <p>; <svg/> is empty.
    may_be_empty = name in ("svg", "math") or (is_xml and name not in VOID)
    return TokenKind.OTHER if may_be_empty and found[0].endswith("/>") else TokenKind.START
