"""Zip archives whose parts hold texts: read within limits, and written with some parts anew."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from xuanzang.documents.document import IN_PROSE, DocumentError, Limits, Unit

_CHUNK = 256 * 1024
_ENCRYPTED = 0x1
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    IndexError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    UnicodeDecodeError,
    ValueError,
)
"""Errors of zipfile for archives that are damaged or not supported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The files of a zip archive."""

    raw: bytes
    """Content of the archive."""
    infos: tuple[zipfile.ZipInfo, ...]
    """Names and properties of its files, in their order."""
    files: Mapping[str, bytes]
    """Contents by names."""
    comment: bytes
    """Comment of the archive."""

    @classmethod
    def read(cls, raw: bytes, limits: Limits, *, suffix: str) -> Self:
        """Decompress an archive, no further than to the limits.

        Args:
            suffix: Suffix of the document, for messages.

        Raises:
            DocumentError: It is damaged, encrypted, ambiguous, over a limit, or compressed by an unusual method.
        """
        try:
            with zipfile.ZipFile(io.BytesIO(raw)) as archive:
                infos = archive.infolist()
                _check(infos, limits)
                files, left = {}, limits.expanded_bytes
                for info in infos:
                    files[info.filename] = content = _content(archive, info, left, limits)
                    left -= len(content)
                return cls(raw=raw, infos=tuple(infos), files=files, comment=archive.comment)
        except DocumentError:
            raise
        except _UNREADABLE as error:
            raise DocumentError(f"no readable {suffix}, which is a zip archive: {error}") from error

    def written(self, changed: Mapping[str, bytes]) -> bytes:
        """Return the archive with some contents anew; the same bytes, if they are equal to the old ones."""
        if all(self.files[name] == content for name, content in changed.items()):
            return self.raw
        output = io.BytesIO()
        with zipfile.ZipFile(output, "w") as archive:
            archive.comment = self.comment
            for info in self.infos:
                content = changed.get(info.filename, self.files[info.filename])
                archive.writestr(info, content, compress_type=info.compress_type)
        return output.getvalue()


class Part(Protocol):
    """A file of an archive that holds texts."""

    @property
    def unwritten(self) -> tuple[Unit, ...]:
        """Texts whose translations the last `render` could not write, so that they have stayed."""

    def units(self) -> Iterator[Unit]:
        """Yield the texts to translate."""

    def render(self, translations: Mapping[str, str]) -> bytes:
        """Return the file with translations."""


class ArchiveDocument:
    """A document of several parts in an archive.

    Args:
        parts: Parts with texts by their names in the archive, in the order of the document.
    """

    placeholders = IN_PROSE
    is_html = True

    def __init__(self, archive: Archive, parts: Mapping[str, Part]) -> None:
        self._archive = archive
        self._parts = parts
        self.unwritten: tuple[Unit, ...] = ()

    def units(self) -> Iterator[Unit]:
        """Yield the texts to translate with their parts."""
        for name, part in self._parts.items():
            for number, unit in enumerate(part.units(), start=1):
                yield Unit(text=unit.text, where=f"{name}, text {number}")

    def render(self, translations: Mapping[str, str]) -> bytes:
        """Return the archive with translations; if nothing changes, the same bytes."""
        changed = {name: part.render(translations) for name, part in self._parts.items()}
        self.unwritten = tuple(unit for part in self._parts.values() for unit in part.unwritten)
        return self._archive.written(changed)


def _check(infos: Sequence[zipfile.ZipInfo], limits: Limits) -> None:
    if len(infos) > limits.archive_entries:
        raise DocumentError(f"more than {limits.archive_entries} files inside, the limit of archive_entries")
    if len({info.filename for info in infos}) < len(infos):
        raise DocumentError("it has two files of one name inside")
    for info in infos:
        if info.flag_bits & _ENCRYPTED:
            raise DocumentError("it is encrypted")
        if info.compress_type not in _METHODS:
            raise DocumentError(f"its files are compressed by method {info.compress_type}; only deflate (8) is read")
    if sum(info.file_size for info in infos) > limits.expanded_bytes:
        raise _too_large(limits)


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, left: int, limits: Limits) -> bytes:
    """Return the content of a file, whose size may be other than the archive says."""
    with archive.open(info) as file:
        chunks, size = [], 0
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            if size > left:
                raise _too_large(limits)
            chunks.append(chunk)
    return b"".join(chunks)


def _too_large(limits: Limits) -> DocumentError:
    return DocumentError(f"larger than {limits.expanded_bytes} bytes, the limit of expanded_bytes")
