"""Files by their suffixes: their texts, and the same files with translations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Self, cast

from xuanzang.documents.document import Document, DocumentError, Format, Limits, ReadSettings

_FORMATS = {
    ".txt": "plain_text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "markdown",
    ".html": "html",
    ".htm": "html",
    ".srt": "subtitles",
    ".vtt": "subtitles",
    ".ass": "subtitles",
    ".ssa": "subtitles",
    ".po": "messages.gettext",
    ".pot": "messages.gettext",
    ".json": "messages.json_values",
    ".jsonl": "messages.json_values",
    ".ndjson": "messages.json_values",
    ".csv": "tables",
    ".tsv": "tables",
    ".parquet": "parquet",
    ".arb": "messages.json_values",
    ".strings": "messages.apple_strings",
    **dict.fromkeys((".stringsdict", ".properties", ".resx"), "messages.catalogues"),
    ".xml": "xml.android",
    ".ts": "messages.catalogues",
    **dict.fromkeys((".yml", ".yaml"), "messages.rails"),
    ".xliff": "xml.xliff",
    ".xlf": "xml.xliff",
    ".docx": "xml.ooxml",
    ".pptx": "xml.ooxml",
    ".xlsx": "xml.ooxml",
    ".odt": "xml.odf",
    ".odp": "xml.odf",
    ".ods": "xml.odf",
    ".epub": "epub",
}
# Extras of the client, by the library that a format needs.
_EXTRAS = {
    "translate": "catalogues",
    "ruamel": "catalogues",
    "lxml": "documents",
    "pyarrow": "parquet",
    "pyromark": "documents",
}
SUFFIXES = tuple(_FORMATS)
"""Suffixes of the files that can be translated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentTexts:
    """The texts of a document, the only input of its translation."""

    places: Mapping[str, str]
    """Place of the first occurrence of each text, such as "line 12", in the order of the document."""
    counts: Mapping[str, int]
    """Occurrences of each text."""
    placeholders: tuple[str, ...]
    """Families of the placeholders that translations carry."""
    is_html: bool
    """True if texts are HTML, whose tags stand for the markup within them."""
    ordered: tuple[str, ...] = ()
    """Texts whose placeholders must keep their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A text that has stayed as it was."""

    where: str
    """Place of its first occurrence in the document, such as "line 12"."""
    message: str
    """Reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file with translations."""

    content: bytes
    """Content of the file."""
    refusals: tuple[Refusal, ...]
    """Texts whose translations could not be written, so that they have stayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFile:
    """A file to translate. Processes can hand it to each other, and the results of its methods."""

    content: bytes
    """Content of the file."""
    name: str
    """Name for messages."""
    settings: ReadSettings
    """Settings of its format."""

    @classmethod
    def of(
        cls,
        source: str | Path | bytes,
        *,
        suffix: str | None = None,
        encoding: str | None = None,
        columns: Sequence[str] | None = None,
        target_language: str | None = None,
        limits: Limits | None = None,
    ) -> Self:
        """Take a file, and read nothing but its content.

        Args:
            source: Path, or the content of a file.
            suffix: Suffix that tells the format, such as ".md"; None: that of the path.
            encoding: Name of the character encoding; None: the file's declaration, else UTF-8.
            columns: Names of the columns or keys whose texts are translated; None: all, where the format allows it.
            target_language: Code of the language of the translations, which catalogues name; None: unknown.
            limits: Limits of the document; None: the default ones.

        Raises:
            DocumentError: The file is over the limit of its size.
            OSError: The file cannot be read.
            TypeError: A lone name instead of a sequence of them.
        """
        if isinstance(columns, str):
            raise TypeError("columns must be a sequence of names, not a str")
        limits = limits or Limits()
        known = (suffix or ("" if isinstance(source, bytes) else Path(source).suffix)).lower()
        settings = ReadSettings(
            suffix=known,
            encoding=encoding,
            columns=None if columns is None else tuple(columns),
            target_language=target_language,
            limits=limits,
        )
        name = "the document" if isinstance(source, bytes) else str(source)
        with _named(name):
            return cls(content=_content(source, limits.file_bytes), name=name, settings=settings)

    def document(self) -> Document:
        """Read the file.

        Raises:
            DocumentError: The format is unknown or lacks its library, or the file is not of it, is over a limit, or
                needs an argument.
        """
        with _named(self.name):
            return _format(self.settings.suffix).read(self.content, self.settings)

    def texts(self) -> DocumentTexts:
        """Return the texts of the file.

        Raises:
            DocumentError: As `document`.
        """
        document = self.document()
        places: dict[str, str] = {}
        counts: dict[str, int] = {}
        ordered: dict[str, None] = {}
        limit = self.settings.limits.units
        for number, unit in enumerate(document.units(), start=1):
            if number > limit:
                raise DocumentError(f"{self.name}: more than {limit} texts, the limit of units")
            places.setdefault(unit.text, unit.where)
            counts[unit.text] = counts.get(unit.text, 0) + 1
            ordered.update({unit.text: None} if unit.is_ordered else {})
        return DocumentTexts(
            places=places,
            counts=counts,
            placeholders=document.placeholders,
            is_html=document.is_html,
            ordered=tuple(ordered),
        )

    def written(self, translations: Mapping[str, str]) -> bytes:
        """Return the file with translations; see `rewritten`."""
        return self.rewritten(translations).content

    def rewritten(self, translations: Mapping[str, str]) -> WrittenFile:
        """Return the file with translations, and the texts whose translations could not be written.

        Args:
            translations: Translations by text; a text without one is unchanged.

        Raises:
            DocumentError: As `document`, or the file's encoding lacks a character of a translation.
        """
        document = self.document()
        with _named(self.name):
            content = document.render(translations)
        message = "the translation cannot be written: it is too long, or no spelling has its text and markup"
        refusals = tuple(Refusal(where=unit.where, message=unit.fault or message) for unit in document.unwritten)
        return WrittenFile(content=content, refusals=refusals)


@contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except DocumentError as error:
        raise DocumentError(f"{name}: {error}") from error


def _format(suffix: str) -> Format:
    if suffix not in _FORMATS:
        raise DocumentError(f"no format has the suffix {suffix!r}; known: {' '.join(SUFFIXES)}")
    try:
        return cast("Format", import_module(f"xuanzang.documents.formats.{_FORMATS[suffix]}"))
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(error.name or "")
        if extra is None:
            raise
        message = f"{suffix} needs {error.name}, of the extra `{extra}`: pip install -e 'client[{extra}]'"
        raise DocumentError(message) from error


def _content(source: str | Path | bytes, limit: int) -> bytes:
    if isinstance(source, bytes):
        content = source
    else:
        path = Path(source)
        if path.exists() and not (path.is_file() or path.is_dir()):
            # To open a named pipe waits for a writer, perhaps for ever.
            raise DocumentError("not a regular file")
        with path.open("rb") as file:
            content = file.read(limit + 1)
    if len(content) > limit:
        raise DocumentError(f"larger than {limit} bytes, the limit of file_bytes")
    return content
