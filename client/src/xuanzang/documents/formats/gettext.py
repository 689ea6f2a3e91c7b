"""Gettext catalogues (.po, .pot): empty msgstr are filled from their msgid; all other bytes stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from xuanzang.documents.document import IN_MESSAGES, Document, DocumentError, ReadSettings
from xuanzang.documents.encoding import EncodedText
from xuanzang.documents.splicing import Edit, SplicedDocument, parted, translatable

_CHARSET = re.compile(rb"charset=([\w.-]{1,40})")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_LINE = re.compile(rf"[ \t]*(?:(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)[ \t]*)?({_STRING})[ \t]*")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))")
_MAX_FORMS = 16
"""Forms of a plural; languages have at most six."""
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_WRITTEN = {"\\": "\\\\", '"': '\\"'} | {character: f"\\{name}" for name, character in _NAMED.items()}


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read a catalogue; see `Format`."""
    declared = _CHARSET.search(raw)
    name = declared[1].decode("ascii") if declared and declared[1] != b"CHARSET" else None
    source = EncodedText.decode(raw, settings.encoding or name)
    line_end = "\r\n" if "\r\n" in source.text else "\n"
    edits = [edit for entry in _entries(source.text) for edit in _edits(entry, line_end)]
    return SplicedDocument(source, edits, placeholders=IN_MESSAGES)


@dataclass(slots=True, kw_only=True)
class _String:
    """One or several literals after a keyword."""

    start: int
    end: int
    parts: list[str]

    def extend(self, end: int, part: str) -> None:
        self.end = end
        self.parts.append(part)

    @property
    def value(self) -> str:
        return "".join(self.parts)


@dataclass(slots=True, kw_only=True)
class _Entry:
    """Strings of an entry, by keyword."""

    strings: dict[str, _String] = field(default_factory=dict)


def _entries(text: str) -> Iterator[_Entry]:
    entry, last, at = _Entry(), None, 0
    for number, line in enumerate(_LINES.findall(text), start=1):
        content = line.rstrip("\r\n")
        match = _LINE.fullmatch(content)
        if match is None and content.strip() and not content.lstrip().startswith("#"):
            raise DocumentError(f"line {number}: neither a keyword with a string nor a comment")
        if match is None:
            last = None
        else:
            start, end = at + match.start(2), at + match.end(2)
            if match[1]:
                if _begins(match[1], entry):
                    yield entry
                    entry = _Entry()
                last = entry.strings[match[1]] = _String(start=start, end=end, parts=[_unescaped(match[2])])
            elif last is None:
                raise DocumentError(f"line {number}: a string without a keyword")
            else:
                last.extend(end, _unescaped(match[2]))
        at += len(line)
    yield entry


def _begins(keyword: str, entry: _Entry) -> bool:
    """Return whether a keyword begins another entry than the one under way."""
    return keyword in entry.strings or (keyword in ("msgctxt", "msgid") and "msgid" in entry.strings)


def _edits(entry: _Entry, line_end: str) -> Iterator[Edit]:
    values = {name: string.value for name, string in entry.strings.items()}
    if not values.get("msgid"):  # the header
        return
    targets = {name: string for name, string in entry.strings.items() if name.startswith("msgstr")}
    if len(targets) > _MAX_FORMS:
        raise DocumentError(f"an entry has more than {_MAX_FORMS} forms of its plural")
    plural = values.get("msgid_plural", values["msgid"])
    for name, target in targets.items():
        singular = name in ("msgstr", "msgstr[0]") and (len(targets) > 1 or "msgid_plural" not in values)
        value = values["msgid"] if singular else plural
        if not values[name] and translatable(value):
            write = _writer(value, line_end)
            yield Edit(start=target.start, end=target.end, texts=(value.strip(),), render=write, fills=True)


def _writer(value: str, line_end: str) -> Callable[[tuple[str, ...]], str]:
    """Return the function from a translation to literals: with the white space of the text, a line for each line."""
    before, _, after = parted(value)

    def write(found: tuple[str, ...]) -> str:
        content = before + found[0] + after
        lines = [f'"{_escaped(line)}"' for line in _LINES.findall(content)]
        return lines[0] if len(lines) == 1 else line_end.join(['""', *lines])

    return write


def _unescaped(literal: str) -> str:
    return _ESCAPE.sub(_character, literal[1:-1])


def _character(escape: re.Match[str]) -> str:
    hexadecimal, octal, name = escape.groups()
    return _NAMED.get(name, name) if name else chr(int(hexadecimal, 16) if hexadecimal else int(octal, 8))


def _escaped(text: str) -> str:
    return "".join(_WRITTEN.get(character, character) for character in text)
