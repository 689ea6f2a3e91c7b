"""Glossaries of the server: files glossaries/NAME.tsv beside the models, read again when they change."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.whole_files import remove_abandoned
from xuanzang.text.terminology.terms import GlossaryEntry, TermIndex

FOLDER = "glossaries"
MAX_SOURCE_CHARACTERS = 100
MAX_TARGETS = 8
MAX_TARGET_CHARACTERS = 200
MAX_FILE_BYTES = 16 * 2**20
MAX_FILE_ENTRIES = 100_000
MAX_FILES = 1000

_LOGGER = logging.getLogger(__name__)
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_HEADER = re.compile(r"#\s*(source_language|target_language|version):\s*(\S{1,64})\s*")
_DISPLAY_NAME = re.compile(r"#\s*(display_name):\s*(\S.{0,1023})")
_MAX_FAULTS = 3

_State = tuple[int, int, int]
_UNREADABLE: _State = (0, 0, 0)
"""State of a link that leads nowhere, and the like: it is tried once, and what there is of its name stays."""


class GlossaryError(Exception):
    """A file is no glossary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Glossary:
    """A glossary of the server."""

    name: str
    source_language: str
    """BCP-47 code."""
    target_language: str
    version: str
    """What its author has written; may be empty."""
    display_name: str
    """Name for people; may be empty."""
    sha256: str
    """Digest of the file, lower-case hexadecimal."""
    entries: tuple[GlossaryEntry, ...]
    index: TermIndex
    """The same, by their sources."""

    @property
    def entry_count(self) -> int:
        """Number of entries."""
        return len(self.entries)


class GlossaryFolder:
    """The glossaries of a folder. Belongs to one event loop; files are read in a thread."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._reading = asyncio.Lock()
        self._seen: dict[Path, _State] = {}
        self._glossaries: dict[str, Glossary] = {}

    @property
    def glossaries(self) -> list[Glossary]:
        """All glossaries, by name."""
        return [self._glossaries[name] for name in sorted(self._glossaries)]

    def find(self, name: str) -> Glossary:
        """Return a glossary; raise InvalidInputError if there is none of this name."""
        if name not in self._glossaries:
            description = "is not a glossary of this server; ListGlossaries names them"
            raise InvalidInputError([FieldViolation(field="glossary", description=description)])
        return self._glossaries[name]

    def have_changed(self) -> bool:
        """Return whether the folder has other files than those that were last read."""
        return _look(self.path, self._seen) != self._seen

    async def reload(self) -> None:
        """Read new and changed files; keep what there is of those that are not valid."""
        async with self._reading:
            await self._reload()

    async def _reload(self) -> None:
        await asyncio.to_thread(remove_abandoned, self.path, "*.tsv")
        states = await asyncio.to_thread(_look, self.path, self._seen)
        changed = [path for path, state in states.items() if self._seen.get(path) != state]
        gone = {path.stem for path in self._seen} - {path.stem for path in states}
        self._seen = states
        for name in gone:
            self._glossaries.pop(name, None)
        for path in changed:
            try:
                self._glossaries[path.stem] = await asyncio.to_thread(read_glossary, path)
            except GlossaryError as error:
                _LOGGER.warning("glossary refused", extra={"file": str(path), "reason": str(error)})
            else:
                _LOGGER.info("glossary loaded", extra={"glossary": path.stem})


def _look(folder: Path, seen: dict[Path, _State]) -> dict[Path, _State]:
    """Return the files of a folder; those that were seen before, if it cannot be looked into now."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".tsv")[:MAX_FILES]
    except (FileNotFoundError, NotADirectoryError):
        # Most servers have no such folder.
        return {}
    except OSError:
        return seen
    return {path: state for path in paths if (state := _state(path)) is not None}


def _state(path: Path) -> _State | None:
    """Return what tells a file from an earlier one; None if it has just been deleted."""
    try:
        status = path.stat()
    except OSError as error:
        is_deleted = isinstance(error, FileNotFoundError) and not path.is_symlink()
        return None if is_deleted else _UNREADABLE
    return status.st_ino, status.st_size, status.st_mtime_ns


def read_glossary(path: Path) -> Glossary:
    """Read a glossary: lines `# source_language: zh`, `# target_language: en`, `# version: 3`, then its entries.

    Each line of NAME.tsv, in UTF-8, has a source and one or more targets, with tabs between them. GlossaryError names
    the first lines that are no entries.
    """
    if not NAME.fullmatch(path.stem):
        raise GlossaryError("its name must be lower-case letters, digits, '-', '_' and '.'")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise GlossaryError(f"it has more than {MAX_FILE_BYTES} bytes")
        lines = content.decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise GlossaryError(str(error)) from error
    heads = (_HEADER.fullmatch(line) or _DISPLAY_NAME.fullmatch(line) for line in lines if line.startswith("#"))
    headers = {match[1]: match[2] for match in heads if match}
    entries = tuple(_entry(line) for line in lines if line.strip() and not line.startswith("#"))
    faults = list(_faults(headers, entries))
    if faults:
        raise GlossaryError("; ".join(faults[:_MAX_FAULTS]))
    return Glossary(
        name=path.stem,
        source_language=headers["source_language"],
        target_language=headers["target_language"],
        version=headers.get("version", ""),
        display_name=headers.get("display_name", "").strip(),
        sha256=hashlib.sha256(content).hexdigest(),
        entries=entries,
        index=TermIndex(entries),
    )


def _entry(line: str) -> GlossaryEntry:
    source, *targets = (part.strip() for part in line.split("\t"))
    return GlossaryEntry(source=source, targets=tuple(targets))


def _faults(headers: dict[str, str], entries: Sequence[GlossaryEntry]) -> Iterator[str]:
    for name in ("source_language", "target_language"):
        if name not in headers:
            yield f"it has no line '# {name}: CODE'"
    if len(entries) > MAX_FILE_ENTRIES:
        yield f"it has {len(entries)} entries; at most {MAX_FILE_ENTRIES} are allowed"
    for number, entry in enumerate(entries, start=1):
        yield from (f"entry {number}: {fault}" for _, fault in entry_faults(entry))


def entry_faults(entry: GlossaryEntry) -> Iterator[tuple[str, str]]:
    """Find what is wrong with an entry without white space at the ends of its texts."""
    if not 1 <= len(entry.source) <= MAX_SOURCE_CHARACTERS:
        yield "source", f"must have 1 to {MAX_SOURCE_CHARACTERS} characters, has {len(entry.source)}"
    if not 1 <= len(entry.targets) <= MAX_TARGETS:
        yield "targets", f"must have 1 to {MAX_TARGETS} elements, has {len(entry.targets)}"
    for number, target in enumerate(entry.targets):
        if not 1 <= len(target) <= MAX_TARGET_CHARACTERS:
            yield f"targets[{number}]", f"must have 1 to {MAX_TARGET_CHARACTERS} characters, has {len(target)}"
