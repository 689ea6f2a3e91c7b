"""Catalogues of programs by translate-toolkit: .stringsdict, .properties, .resx, Qt."""

from __future__ import annotations

import plistlib
import re
from collections.abc import Iterator, Mapping
from typing import Any
from xml.parsers.expat import ExpatError

from translate.misc.multistring import multistring
from translate.storage.base import ParseError
from translate.storage.properties import javafile, javautf8file
from translate.storage.resx import RESXFile
from translate.storage.stringsdict import StringsDictFile
from translate.storage.ts2 import tsfile

from xuanzang.documents.document import IN_MESSAGES, Document, DocumentError, ReadSettings, Unit
from xuanzang.documents.encoding import EncodedText
from xuanzang.documents.formats.messages.accelerators import with_accelerator, without_accelerator
from xuanzang.documents.splicing import is_identifier, parted, translatable

_ROOTS = {".resx": b"<root", ".ts": b"<TS", ".stringsdict": b"<plist"}
"""Beginning of the root element in XML."""
_XML_STORES = {".resx": RESXFile, ".ts": tsfile, ".stringsdict": StringsDictFile}
_EMPTY_LINES = re.compile(r"(?:[ \t]*+\r?\n){1000}")
"""Empty lines that the library takes long for, as the square of their number."""
_SHOWN_CHARACTERS, _SHOWN_NAME = 200, 100
_ATTEMPTS = 4
"""Maximum attempts to write a file, each without the entries that the one before has lost."""
_ARGUMENT = re.compile(r"\{\d")
_VARIABLE = re.compile(r"%(?:\d{1,2}\$)?#@(\w+)@")
# The library raises whatever its parsers do.
_FAULTS = (
    ParseError,
    ExpatError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RecursionError,
)


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read a catalogue; see `Format`."""
    if settings.suffix in _XML_STORES:
        plain = raw.replace(b"\0", b"")
        if b"<!ENTITY" in plain or re.search(rb"<!DOCTYPE[^>\[]*\[", plain):
            raise DocumentError("its document type declares entities, which are refused")
        if _ROOTS[settings.suffix] not in plain:
            raise DocumentError(f"no {settings.suffix} catalogue: it has no {_ROOTS[settings.suffix].decode()}>")
    return _Catalogue(raw, settings)


class _Catalogue:
    """A catalogue, which is parsed anew to be written.

    Args:
        raw: Content of the file.

    Raises:
        DocumentError: It is not of its format.
    """

    placeholders = IN_MESSAGES
    unwritten: tuple[Unit, ...] = ()
    is_html = False

    def __init__(self, raw: bytes, settings: ReadSettings) -> None:
        self._raw = raw
        self._settings = settings
        self._entries = list(self._read(_parsed(raw, settings)))

    def units(self) -> Iterator[Unit]:
        """Yield the texts to translate with their names."""
        for entry, strings in self._entries:
            for text in filter(_is_text, strings):
                yield Unit(text=_asked(text.strip(), self._settings.suffix), where=str(entry.getid())[:_SHOWN_NAME])

    def render(self, translations: Mapping[str, str]) -> bytes:
        """Return the file with translations; if nothing changes, the same bytes.

        Raises:
            DocumentError: No choice of entries to leave alone, among some, gives a file that is read back.
        """
        left: frozenset[str] = frozenset()
        for _ in range(_ATTEMPTS):
            raw, lost = self._written(translations, left)
            if not lost and _shape(raw, self._settings.suffix) != _shape(self._raw, self._settings.suffix):
                raise DocumentError("it has parts that are no messages, such as widths, and would lose them")
            if not lost:
                places = {name[:_SHOWN_NAME] for name in left}
                self.unwritten = tuple(unit for unit in self.units() if unit.where in places)
                return raw
            left |= lost
        raise DocumentError(f"the translation of {min(left)[:_SHOWN_NAME]!r} cannot be written in this format")

    def _written(self, translations: Mapping[str, str], left: frozenset[str]) -> tuple[bytes, frozenset[str]]:
        """Return the file with translations, and the names of the entries that would not be read back from it.

        Args:
            left: Names of entries to leave alone.
        """
        store = _parsed(self._raw, self._settings)
        is_changed = False
        wanted: dict[str, list[str]] = {}
        lost: set[str] = set()
        for entry, strings in self._read(store):
            name = str(entry.getid())
            written = [_translated(text, translations, self._settings.suffix) for text in strings]
            is_filled = self._fills and any(map(_is_text, strings))
            lost.update({name} if _variants(entry) and name not in left else ())
            if name in left or not (written != strings or is_filled):
                wanted |= {} if self._fills else {name: strings}
                continue
            try:
                entry.target = multistring(written) if len(written) > 1 or _is_plural(entry) else written[0]
            except _FAULTS:
                lost.add(name)
            wanted[name] = written
            is_changed = True
        if lost or not is_changed:
            return self._raw, frozenset(lost)
        raw = self._serialized(store)
        again = self._read(_parsed(raw, self._settings), filled=True)
        found = {str(entry.getid()): strings for entry, strings in again}
        return raw, frozenset(name for name, strings in wanted.items() if found.get(name) != strings)

    def _serialized(self, store: Any) -> bytes:
        """Return a store as a file."""
        if isinstance(store, tsfile):
            root = store.document.getroot()
            for context in root.findall("context"):
                if not context.findtext("name") and context.find("message") is None:
                    root.remove(context)  # the library adds it for messages without one
        raw = bytes(store)
        if isinstance(store, javafile):
            # References take the place of what ASCII lacks.
            text = raw.decode("iso-8859-1")
            raw = re.sub(r"[^\x00-\x7f]", lambda found: f"\\u{ord(found[0]):04X}", text).encode("ascii")
        return raw

    @property
    def _fills(self) -> bool:
        """True if a message holds both its text and its translation."""
        return self._settings.suffix == ".ts"

    def _read(self, store: Any, *, filled: bool = False) -> Iterator[tuple[Any, list[str]]]:
        """Yield the entries to translate with their strings, one for each form of a plural.

        Args:
            filled: Whether to yield the translations of such messages instead of their texts.
        """
        for entry in store.units:
            if entry.isheader() or not entry.istranslatable() or entry.isobsolete() or _is_data(entry):
                continue
            if self._fills and (filled is not bool(str(entry.target).strip())):
                continue
            value = entry.source if self._fills and not filled else entry.target or entry.source
            strings = [str(each) for each in value.strings] if isinstance(value, multistring) else [str(value)]
            if self._fills and not filled and isinstance(entry.target, multistring):
                strings *= max(1, len(entry.target.strings))
            if any(map(_is_text, strings)) or filled:
                yield entry, strings


def _parsed(raw: bytes, settings: ReadSettings) -> Any:
    """Return the library's store of a file.

    Raises:
        DocumentError: It is not of its format.
    """
    try:
        store = _store(raw, settings)
        store.parse(raw)
    except _FAULTS as error:
        raise DocumentError(f"no readable {settings.suffix}: {_shown(error)}") from error
    return store


def _store(raw: bytes, settings: ReadSettings) -> Any:
    if settings.suffix in _XML_STORES:
        return _XML_STORES[settings.suffix]()
    text = EncodedText.decode(raw, settings.encoding).text
    if _EMPTY_LINES.search(text):
        raise DocumentError("more than 999 empty lines in a row")
    # Java reads ASCII with references in any version, and UTF-8 since version 9.
    store: Any = javafile() if raw.isascii() else javautf8file()
    # The library would guess the encoding, sometimes wrongly.
    encoding = "iso-8859-1" if isinstance(store, javafile) else store.encoding
    store.detect_encoding = lambda _text, **_: (text, encoding)
    return store


def _is_data(entry: Any) -> bool:
    """Return whether an entry holds no text, as a file of .resx does."""
    element = getattr(entry, "xmlelement", None)
    if element is not None and (element.get("mimetype") or (element.tag == "data" and element.get("type"))):
        return True
    if element is not None and element.tag == "data" and element.get("name", "").startswith(">>"):
        return True  # a note of the designer of forms, such as a class
    source = element.find("source") if element is not None and element.tag == "message" else None
    # Characters that XML cannot hold, or translated variants.
    return source is not None and (len(source) > 0 or any(each.text for each in _variants(entry)))


def _variants(entry: Any) -> list[Any]:
    """Return the translations of a message of Qt by length, which the library would join."""
    element = getattr(entry, "xmlelement", None)
    return [] if element is None else element.findall("translation//lengthvariant")


def _shape(raw: bytes, suffix: str) -> Any:
    """Return the names of all values in a catalogue, which are those of its translation."""
    if suffix != ".stringsdict":
        return None
    try:
        return sorted(_paths(plistlib.loads(raw, fmt=plistlib.FMT_XML)))
    except _FAULTS as error:
        raise DocumentError(f"no readable {suffix}: {_shown(error)}") from error


def _paths(values: Any, above: str = "") -> Iterator[str]:
    """Yield the names of values within one another, each behind the names around it."""
    yield above
    if isinstance(values, (dict, list)):
        for key, value in values.items() if isinstance(values, dict) else enumerate(values):
            yield from _paths(value, f"{above}\n{key}")


def _shown(error: Exception) -> str:
    return " ".join(str(error).split())[:_SHOWN_CHARACTERS]


def _is_plural(entry: Any) -> bool:
    return isinstance(entry.target, multistring) or isinstance(entry.source, multistring)


def _is_text(text: str) -> bool:
    return translatable(text) and not is_identifier(text.strip())


def _translated(text: str, translations: Mapping[str, str], suffix: str) -> str:
    if not _is_text(text):
        return text
    before, inner, after = parted(text)
    asked = _asked(inner, suffix)
    if asked not in translations:
        return text
    translation = with_accelerator(translations[asked], inner)
    if suffix == ".properties" and _ARGUMENT.search(inner):
        # Java's MessageFormat takes a single apostrophe for a quotation mark, and never a typographic one.
        translation = re.sub("'+(?![{}'])(?<!}')", "''" if "''" in inner else "’", translation)
    for variable in _VARIABLE.finditer(inner):
        translation = translation.replace(f"{{{variable[1]}}}", variable[0])
    return before + translation + after


def _asked(text: str, suffix: str) -> str:
    """Return a text without accelerator and doubled apostrophes, variables of a .stringsdict as fields in braces."""
    if suffix == ".properties" and _ARGUMENT.search(text):
        text = text.replace("''", "'")
    return _VARIABLE.sub(r"{\1}", without_accelerator(text))
