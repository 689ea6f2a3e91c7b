"""Gettext catalogues (.po, .pot): empty msgstr are filled from their msgid; all other bytes stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from xuanzang.documents.document import IN_MESSAGES, Document, DocumentError, ReadSettings
from xuanzang.documents.encoding import EncodedText
from xuanzang.documents.formats.messages.accelerators import unmarked
from xuanzang.documents.formats.messages.printf import directives, is_ordered, numbered, unnumbered
from xuanzang.documents.splicing import Edit, SplicedDocument, parted, translatable

_CHARSET = re.compile(rb"charset=([\w.-]{1,40})")
_KEYWORD = re.compile(rb"^[ \t]*msgid\b", re.MULTILINE)
_HEADER = re.compile(rb'(?:\s*#[^\n]*)*+\s*""(?:\s*#[^\n]*)*+\s*msgstr')
_COMMENT = re.compile(rb"^[ \t]*#.*$", re.MULTILINE)
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_TOKEN = re.compile(
    r"(?P<space>\s++)|(?P<comment>#[^\n]*+)|(?P<keyword>domain|msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)(?![\w\[])"
    r'|(?P<string>"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+")'
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))")
_FIELD = re.compile(r"nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=\s*([^;\n]+)")
_MAX_FORMS = 16
"""Forms of a plural; languages have at most six."""
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_WRITTEN = {"\\": "\\\\", '"': '\\"'} | {character: f"\\{name}" for name, character in _NAMED.items()}

_SLAVIC = "n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2"
_RULES: Mapping[str, tuple[int, str]] = {
    **dict.fromkeys(("zh", "ja", "ko", "vi", "th", "id", "ms", "lo", "my", "km"), (1, "0")),
    **dict.fromkeys(("fr", "pt_BR", "oc", "fil", "tr"), (2, "n > 1")),
    **dict.fromkeys(("ru", "uk", "be", "sr", "hr", "bs"), (3, _SLAVIC)),
    **dict.fromkeys(("cs", "sk"), (3, "(n==1) ? 0 : (n>=2 && n<=4) ? 1 : 2")),
    "pl": (3, "n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2"),
    "lt": (3, "n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2"),
    "lv": (3, "n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2"),
    "ro": (3, "n==1 ? 0 : (n==0 || (n%100 > 0 && n%100 < 20)) ? 1 : 2"),
    "sl": (4, "n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3"),
    "ga": (5, "n==1 ? 0 : n==2 ? 1 : n<7 ? 2 : n<11 ? 3 : 4"),
    "ar": (6, "n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5"),
}
"""Number of plural forms and the expression that chooses one, by language, where it is not that of English.

Source: the manual of GNU gettext, section "Plural forms".
"""
_ENGLISH = (2, "n != 1")


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read a catalogue; see `Format`."""
    source = EncodedText.decode(raw, settings.encoding or _declared(raw))
    return SplicedDocument(
        source, list(map(unmarked, _Reader(source.text, settings.target_language).edits())), placeholders=IN_MESSAGES
    )


def _declared(raw: bytes) -> str | None:
    """Return the encoding that the header declares; comments and texts may name others."""
    parts = _KEYWORD.split(raw, maxsplit=2)
    if len(parts) < 2 or not _HEADER.match(parts[1]):
        return None
    found = _CHARSET.search(_COMMENT.sub(b"", parts[1]))
    return found[1].decode("ascii") if found and found[1] != b"CHARSET" else None


@dataclass(slots=True, kw_only=True)
class _String:
    """One or several literals behind a keyword."""

    start: int
    """Index of the keyword."""
    at: int
    """Index of the first literal."""
    end: int
    parts: list[str] = field(default_factory=list)

    @property
    def value(self) -> str:
        return "".join(self.parts)


@dataclass(slots=True, kw_only=True)
class _Entry:
    """An entry: its strings by keyword, and the flags of its comments."""

    strings: dict[str, _String] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()

    @property
    def forms(self) -> list[_String]:
        """Return the strings for the translation."""
        return [string for name, string in self.strings.items() if name.startswith("msgstr")]


class _Reader:
    """The edits of a catalogue.

    Args:
        text: The catalogue.
        language: Code of the target language; None: unknown.
    """

    def __init__(self, text: str, language: str | None) -> None:
        self._text = text
        self._line_end = "\r\n" if "\r\n" in text else "\n"
        self._language = language
        self._forms: int | None = None
        """Plural forms of each translation; None: as many as an entry has."""

    def edits(self) -> Iterator[Edit]:
        """Yield the edits of all entries in their order."""
        for number, entry in enumerate(self._entries()):
            if entry.strings.get("msgid") and not entry.strings["msgid"].value and "msgctxt" not in entry.strings:
                yield from self._header(entry)
            elif entry.strings.get("msgid") and entry.forms:
                if number == 0:
                    yield self._new_header(entry)
                yield from self._filled(entry)

    def _entries(self) -> Iterator[_Entry]:
        entry, flags = _Entry(), frozenset[str]()
        last: _String | None = None
        at = 0
        while at < len(self._text):
            token = _TOKEN.match(self._text, at)
            if token is None:
                raise self._fault(at, "neither a keyword with a string nor a comment")
            if comment := token["comment"]:
                flags |= _flags(comment)
            elif keyword := token["keyword"]:
                if last is not None and not last.parts:
                    raise self._fault(at, "a keyword without a string before this one")
                if _begins(keyword, entry):
                    yield entry
                    entry = _Entry()
                if not entry.strings:
                    entry.flags, flags = flags, frozenset()
                last = entry.strings[keyword] = _String(start=at, at=-1, end=token.end())
            elif string := token["string"]:
                if last is None:
                    raise self._fault(at, "a string without a keyword")
                last.at, last.end = (at if last.at < 0 else last.at), token.end()
                last.parts.append(_unescaped(string))
            at = token.end()
        yield entry

    def _fault(self, at: int, message: str) -> DocumentError:
        return DocumentError(f"line {1 + self._text.count(chr(10), 0, at)}: {message}")

    def _header(self, entry: _Entry) -> Iterator[Edit]:
        """Yield an edit that completes a header, if anything is translated."""
        value = entry.forms[0].value if entry.forms else ""
        declared = _FIELD.search(value)
        rule = _rule(self._language)
        completed = value.replace("charset=CHARSET", "charset=UTF-8")
        if declared and int(declared[1]):
            self._forms = int(declared[1])
            if self._forms > _MAX_FORMS:
                raise DocumentError(f"the header declares {self._forms} plural forms, more than {_MAX_FORMS}")
        elif rule:
            self._forms = rule[0]
            line = f"Plural-Forms: nplurals={rule[0]}; plural={rule[1]};\n"
            without = re.sub(r"^Plural-Forms:.*\n?", "", completed, flags=re.MULTILINE)
            has_plurals = "msgid_plural" in self._text
            completed = without + ("" if without.endswith("\n") else "\n") + line if has_plurals else completed
        if completed != value and entry.forms:
            string = entry.forms[0]
            literals = _literals(completed, self._line_end)
            yield Edit(start=string.at, end=string.end, texts=(), render=lambda _found: literals)

    def _new_header(self, entry: _Entry) -> Edit:
        """Return an edit that puts a header before the first entry: without one, texts are taken for ASCII."""
        rule = _rule(self._language)
        self._forms = rule[0] if rule else None
        value = "Content-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n"
        if rule and "msgid_plural" in self._text:
            value += f"Plural-Forms: nplurals={rule[0]}; plural={rule[1]};\n"
        lines = ('msgid ""', f"msgstr {_literals(value, self._line_end)}", "", "")
        start = min(string.start for string in entry.strings.values())
        while (before := self._text.rfind("\n", 0, max(0, start - 1)) + 1) < start and self._text[before] == "#":
            start = before
        return Edit(start=start, end=start, texts=(), render=lambda _found: self._line_end.join(lines))

    def _filled(self, entry: _Entry) -> Iterator[Edit]:
        forms, values = entry.forms, {name: string.value for name, string in entry.strings.items()}
        if len(forms) > _MAX_FORMS:
            raise DocumentError(f"an entry has more than {_MAX_FORMS} forms of its plural")
        is_plural = "msgid_plural" in values
        count = (self._forms or len(forms)) if is_plural else len(forms)
        sources = [self._source(values, number, count, entry.flags) for number in range(count)]
        if count != len(forms) and not any(form.value for form in forms) and translatable(sources[-1]):
            write = partial(self._written_forms, sources, entry.flags)
            texts = tuple(_asked(source, entry.flags) for source in sources)
            yield Edit(start=forms[0].start, end=forms[-1].end, texts=texts, render=write, fills=True)
            return
        for form, source in zip(forms, sources, strict=False):
            if not form.value and form.at >= 0 and translatable(source):
                yield Edit(
                    start=form.at,
                    end=form.end,
                    texts=(_asked(source, entry.flags),),
                    render=partial(self._written, source, entry.flags),
                    fills=True,
                    is_ordered=is_ordered(source, entry.flags),
                )

    def _source(self, values: Mapping[str, str], number: int, count: int, flags: frozenset[str]) -> str:
        """Return the text of a plural form: the singular for the first of two, or if it has the same placeholders."""
        singular, plural = values["msgid"], values.get("msgid_plural", values["msgid"])
        if number or count == 1:
            return plural
        return singular if count == 2 or directives(singular, flags) == directives(plural, flags) else plural

    def _written(self, source: str, flags: frozenset[str], found: tuple[str, ...]) -> str:
        """Return the literals of a translation, with the white space around the text."""
        before, _, after = parted(source)
        return _literals(before + unnumbered(found[0], source, flags) + after, self._line_end)

    def _written_forms(self, sources: list[str], flags: frozenset[str], found: tuple[str, ...]) -> str:
        pairs = enumerate(zip(sources, found, strict=True))
        lines = [f"msgstr[{number}] {self._written(source, flags, (text,))}" for number, (source, text) in pairs]
        return self._line_end.join(lines)


def _rule(language: str | None) -> tuple[int, str] | None:
    """Return the number of plural forms of a language and their expression."""
    if language is None:
        return None
    code = language.replace("-", "_")
    return _RULES.get(code) or _RULES.get(code.partition("_")[0], _ENGLISH)


def _asked(source: str, flags: frozenset[str]) -> str:
    """Return the text to translate; numbers distinguish equal placeholders of a flagged text."""
    return numbered(source.strip(), flags)


def _flags(comment: str) -> frozenset[str]:
    return frozenset(flag.strip() for flag in comment[2:].split(",")) if comment.startswith("#,") else frozenset()


def _begins(keyword: str, entry: _Entry) -> bool:
    """Return whether a keyword begins another entry than the one under way."""
    is_first = keyword in ("domain", "msgctxt", "msgid")
    return keyword in entry.strings or (is_first and ("msgid" in entry.strings or "domain" in entry.strings))


def _literals(content: str, line_end: str) -> str:
    """Return a string as literals, one for each line."""
    lines: list[Callable[[], str] | str] = [f'"{_escaped(line)}"' for line in _LINES.findall(content)]
    return str(lines[0]) if len(lines) == 1 else line_end.join(['""', *map(str, lines)])


def _unescaped(literal: str) -> str:
    return _ESCAPE.sub(_character, literal[1:-1])


def _character(escape: re.Match[str]) -> str:
    hexadecimal, octal, name = escape.groups()
    return _NAMED.get(name, name) if name else chr(int(hexadecimal, 16) if hexadecimal else int(octal, 8))


def _escaped(text: str) -> str:
    return "".join(_WRITTEN.get(character, character) for character in text)
