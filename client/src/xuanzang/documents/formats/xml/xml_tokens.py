"""Tokens of an XML document with their places; expat checks it, and no document type is accepted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.parsers import expat
from xml.sax.saxutils import escape

from xuanzang.documents.document import DocumentError
from xuanzang.documents.encoding import EncodedText

_DECLARED = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([\w.-]{1,40})["']""")
_TOKEN = re.compile(
    r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<[^<>\"']*(?:\"[^\"]*\"[^<>\"']*|'[^']*'[^<>\"']*)*>|[^<]+", re.DOTALL
)
_ATTRIBUTE = re.compile(r"""(?<=\s)([^\s=<>"']++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")
_REFERENCE = re.compile(r"&(?:#x([0-9a-fA-F]+)|#([0-9]+)|(lt|gt|amp|quot|apos));")
FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that XML forbids."""
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A tag, a text between tags, a CDATA section, a comment or a processing instruction."""

    start: int
    """Index of its first character."""
    raw: str
    """Its characters."""

    @property
    def end(self) -> int:
        """Index after its last character."""
        return self.start + len(self.raw)

    @property
    def is_text(self) -> bool:
        """True if it is text, whose references stand for characters."""
        return not self.raw.startswith("<")

    @property
    def is_start(self) -> bool:
        """True if it opens an element."""
        return self.raw[0] == "<" and self.raw[1] not in "/!?"

    @property
    def is_end(self) -> bool:
        """True if it closes an element; an empty element's tag opens and closes it."""
        return self.raw.startswith("</") or (self.is_start and self.raw.endswith("/>"))

    @property
    def name(self) -> str:
        """Name of a tag without its prefix; empty for everything else."""
        if self.is_text or self.raw[1] in "!?":
            return ""
        return re.split(r"[\s/>]", self.raw.removeprefix("</").removeprefix("<"), maxsplit=1)[0].rpartition(":")[2]

    @property
    def attributes(self) -> dict[str, str]:
        """Attributes of a tag, with the prefixes of their names."""
        matches = _ATTRIBUTE.finditer(self.raw)
        return {match[1]: unescaped(match[2] if match[2] is not None else match[3]) for match in matches}


def decoded_xml(raw: bytes, encoding: str | None, *, depth: int) -> EncodedText:
    """Return the text of an XML document that is well formed and has no document type.

    Args:
        encoding: Name of its encoding; None: the declared one.
        depth: Limit of elements inside one another.

    Raises:
        DocumentError: It is not well formed, has a document type, or is nested too deep.
    """
    declared = _DECLARED.match(raw[:1024])
    source = EncodedText.decode(raw, encoding or (declared and declared[1].decode("ascii")))
    _check(source.text, depth)
    return source


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a checked document, which together are all of it."""
    for match in _TOKEN.finditer(text):
        yield Token(start=match.start(), raw=match[0])


def unescaped(raw: str) -> str:
    """Return the characters that references stand for."""
    return _REFERENCE.sub(_character, raw)


def escaped(text: str) -> str:
    """Return text as XML, without the control characters that XML forbids."""
    return escape(FORBIDDEN.sub("", text))


def _character(reference: re.Match[str]) -> str:
    hexadecimal, decimal, name = reference.groups()
    return _NAMED[name] if name else chr(int(hexadecimal, 16) if hexadecimal else int(decimal.lstrip("0")))


def _check(text: str, limit: int) -> None:
    parser = expat.ParserCreate("utf-8")
    level = 0

    def start(_name: str, _attributes: dict[str, str]) -> None:
        nonlocal level
        level += 1
        if level > limit:
            raise DocumentError(f"elements are nested more than {limit} deep")

    def end(_name: str) -> None:
        nonlocal level
        level -= 1

    def refuse(*_declaration: object) -> None:
        raise DocumentError("it has a document type (<!DOCTYPE>) and perhaps entities, which are refused")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        raise DocumentError(f"not well-formed XML: {error}") from error
    except UnicodeEncodeError as error:
        raise DocumentError(f"not well-formed XML: {error.reason}") from error
