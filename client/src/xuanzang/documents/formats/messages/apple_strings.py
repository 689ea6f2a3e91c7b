"""Strings of Apple's programs (.strings): the values; keys, comments and all other bytes stay.

Source: the old-style ASCII property lists of Apple's "Property List Programming Topics".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from xuanzang.documents.document import IN_MESSAGES, Document, DocumentError, ReadSettings
from xuanzang.documents.encoding import EncodedText
from xuanzang.documents.formats.messages.accelerators import unmarked
from xuanzang.documents.splicing import Edit, SplicedDocument, is_identifier, parted, replacement

_BLANK = re.compile(r"(?:\s++|//[^\r\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+")
_STRING = re.compile(r"""(?s:"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+')|[\w.$/:-]++""", re.ASCII)
_ESCAPE = re.compile(r"(?s:\\(?:[uU]([0-9a-fA-F]{4})|([0-7]{1,3})|(.)))")
_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_WRITTEN = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
_LAST_ASCII = 0x7F


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read a file of strings; see `Format`."""
    source = EncodedText.decode(raw, settings.encoding)
    return SplicedDocument(source, list(map(unmarked, _edits(source.text))), placeholders=IN_MESSAGES)


def _edits(text: str) -> Iterator[Edit]:
    """Yield the edits of all values.

    Raises:
        DocumentError: The text has more than pairs of keys and strings.
    """
    at = _after_blank(text, 0)
    while at < len(text):
        key = value = _string(text, at)
        at = _after_blank(text, key.end())
        is_pair = text.startswith("=", at)
        if is_pair:
            value = _string(text, _after_blank(text, at + 1))
            at = _after_blank(text, value.end())
        if not text.startswith(";", at):
            raise _fault(text, at, "no semicolon ends the value")
        yield from _replacement(value, is_pair=is_pair)
        at = _after_blank(text, at + 1)


def _replacement(value: re.Match[str], *, is_pair: bool) -> Iterator[Edit]:
    """Yield the edit of a value; a key without one is its own value, and gets one."""
    raw = value[0]
    before, text, after = parted(_characters(value))
    if is_identifier(text):
        return
    mark = raw[0] if raw[0] in "\"'" else '"'
    has_lines = "\n" in raw or "\r" in raw

    def written(translation: str) -> str:
        escapes = {
            ord(character): each for character, each in _WRITTEN.items() if not (has_lines and character in "\r\n")
        }
        quoted = mark + (before + translation + after).translate(escapes | {ord(mark): f"\\{mark}"}) + mark
        return quoted if is_pair else f" = {quoted}"

    yield from replacement(value.start() if is_pair else value.end(), value.end(), text, written)


def _characters(value: re.Match[str]) -> str:
    """Return the characters that a string stands for."""

    def character(escape: re.Match[str]) -> str:
        code = int(escape[1], 16) if escape[1] else int(escape[2], 8) if escape[2] else None
        if escape[2] and code is not None and code > _LAST_ASCII:
            raise _fault(value.string, value.start(), f"{escape[0]} is in the encoding of NeXTSTEP: write \\U instead")
        return chr(code) if code is not None else _CHARACTERS.get(escape[3], escape[3])

    raw = value[0]
    if raw[0] not in "\"'":
        return raw
    found = _ESCAPE.sub(character, raw[1:-1])
    # A character above U+FFFF is written as two halves.
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _string(text: str, at: int) -> re.Match[str]:
    found = _STRING.match(text, at)
    if found is None:
        raise _fault(text, at, "here should be a key or a string")
    return found


def _after_blank(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _fault(text: str, at: int, what: str) -> DocumentError:
    return DocumentError(f"no readable .strings: line {text.count(chr(10), 0, at) + 1}: {what}")
