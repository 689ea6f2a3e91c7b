"""Glossaries of the server: files glossaries/NAME.tsv next to the models, read again when they change, and stored."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from xuanzang.command.files import PathName
from xuanzang.server.engine.errors import (
    FieldViolation,
    GlossaryExistsError,
    GlossaryNotFoundError,
    GlossaryStateError,
    InvalidInputError,
)
from xuanzang.server.watched_files import ReadStates, require_regular
from xuanzang.server.whole_files import remove_abandoned, write_whole
from xuanzang.text.terminology.terms import GlossaryEntry, TermIndex

FOLDER = "glossaries"
MAX_SOURCE_CHARACTERS = 100
MAX_TARGETS = 8
MAX_TARGET_CHARACTERS = 200
MAX_FILE_BYTES = 16 * 2**20
MAX_FILE_ENTRIES = 100_000
MAX_FILES = 1000

_LOGGER = logging.getLogger(__name__)
_HEADER = re.compile(r"#\s*(source_language|target_language|version):\s*(\S{1,64})\s*")
_DISPLAY_NAME = re.compile(r"#\s*(display_name):\s*(\S.{0,1023})")
_MAX_FAULTS = 3
# Limits on stored glossaries.
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,6}")
MAX_DISPLAY_NAME_CHARACTERS = 1024
_VERSION = re.compile(r"\S{0,64}")


class GlossaryError(Exception):
    """A file is no glossary."""


class UnreadableGlossaryError(GlossaryError):
    """A file cannot be read now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Glossary:
    """A glossary of the server."""

    name: str
    source_language: str
    """BCP-47 code."""
    target_language: str
    version: str
    """Version named by its author; may be empty."""
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

    def __init__(self, folder: Path, *, count: Callable[[bool], None] = lambda _: None) -> None:
        """Hold no glossary yet; `count` receives whether a file that was read is a glossary."""
        self.path, self._count = folder, count
        self._reading = asyncio.Lock()
        self._states = ReadStates()
        self._glossaries: dict[str, Glossary] = {}
        self._unreadable: dict[Path, str] = {}

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
        """Return whether the folder has changed since it was last read."""
        files = _files_in(self.path)
        return files is not None and bool(self._states.changed(files) or self._states.files - set(files))

    async def reload(self) -> None:
        """Read new and changed files; keep the previous version of invalid ones."""
        async with self._reading:
            await self._reload()

    async def _reload(self) -> None:
        await asyncio.to_thread(remove_abandoned, self.path, "*.tsv")
        files = await asyncio.to_thread(_files_in, self.path)
        if files is None:
            return
        states = await asyncio.to_thread(self._states.changed, files)
        replaced = [self._forget(gone) for gone in set(self._states.files) - set(files)]
        for path, state in states.items():
            try:
                glossary = await asyncio.to_thread(read_glossary, path)
            except GlossaryError as error:
                self._count(False)
                self._refuse(path, error)
                if isinstance(error, UnreadableGlossaryError):
                    continue
            else:
                replaced.append(self._glossaries.get(path.stem))
                self._glossaries[path.stem] = glossary
                self._unreadable.pop(path, None)
                self._count(True)
                _LOGGER.info("glossary loaded", extra={"glossary": path.stem})
            self._states.note({path: state})
        # To free a hundred thousand entries takes thirty milliseconds.
        await asyncio.to_thread(replaced.clear)

    def _forget(self, path: Path) -> Glossary | None:
        self._states.forget(path)
        self._unreadable.pop(path, None)
        return self._glossaries.pop(path.stem, None)

    def _refuse(self, path: Path, error: GlossaryError) -> None:
        """Log why a file is no glossary, once for each reason."""
        if self._unreadable.get(path) != str(error):
            self._unreadable[path] = str(error)
            _LOGGER.warning("glossary refused", extra={"file": str(path), "reason": str(error)})


def _files_in(folder: Path) -> list[Path] | None:
    """Return the files of a folder; None if it cannot be looked into now."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".tsv")[:MAX_FILES]
    except (FileNotFoundError, NotADirectoryError):
        # Most servers have no such folder.
        return []
    except OSError:
        return None


def read_glossary(path: Path) -> Glossary:
    """Read a glossary: lines `# source_language: zh`, `# target_language: en`, `# version: 3`, then its entries.

    Each line of NAME.tsv, in UTF-8, has a source and one or more targets, with tabs between them. GlossaryError names
    the first lines that are no entries.
    """
    if not PathName.fits(path.stem):
        raise GlossaryError(f"its name must be {PathName.RULE}")
    try:
        require_regular(path)
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise GlossaryError(f"it has more than {MAX_FILE_BYTES} bytes")
        lines = content.decode("utf-8-sig").splitlines()
    except OSError as error:
        raise UnreadableGlossaryError(str(error)) from error
    except UnicodeDecodeError as error:
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
    """Find faults of an entry whose texts have no white space at their ends."""
    if not 1 <= len(entry.source) <= MAX_SOURCE_CHARACTERS:
        yield "source", f"must have 1 to {MAX_SOURCE_CHARACTERS} characters, has {len(entry.source)}"
    if not 1 <= len(entry.targets) <= MAX_TARGETS:
        found = len(entry.targets) if len(entry.targets) <= MAX_TARGETS else "more"
        yield "targets", f"must have 1 to {MAX_TARGETS} elements, has {found}"
    for number, target in enumerate(entry.targets):
        if not 1 <= len(target) <= MAX_TARGET_CHARACTERS:
            yield f"targets[{number}]", f"must have 1 to {MAX_TARGET_CHARACTERS} characters, has {len(target)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GlossaryDraft:
    """A glossary to store."""

    name: str
    source_language: str
    """BCP-47 code."""
    target_language: str
    version: str
    """Version named by its author; may be empty."""
    display_name: str = ""
    entries: Sequence[GlossaryEntry]
    """Its entries, without white space at the ends of their texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlossaryFile:
    """A glossary to store, checked and written as the content of its file."""

    name: str
    content: bytes
    sha256: str
    """Digest of the content, lower-case hexadecimal."""
    entry_count: int


class GlossaryStore:
    """Creates and deletes the files of a folder. Belongs to one event loop; files are written in a thread."""

    def __init__(self, folder: GlossaryFolder) -> None:
        self._folder = folder
        self._changing = asyncio.Lock()

    def get(self, name: str) -> Glossary:
        """Return a glossary; raise GlossaryNotFoundError if there is none of this name."""
        for glossary in self._folder.glossaries:
            if glossary.name == name:
                return glossary
        raise GlossaryNotFoundError("the server holds no glossary of that name; ListGlossaries names them")

    async def create(self, file: GlossaryFile, *, replace: bool = False) -> Glossary:
        """Store a glossary; an existing one with the same content is kept; another is replaced only with `replace`.

        Raises:
            GlossaryExistsError: There is another one of its name.
            GlossaryStateError: There are too many, or the file cannot be written.
        """
        async with self._changing:
            await self._folder.reload()
            if self._holds(file, replace=replace):
                return self.get(file.name)
            await self._change(partial(_write, self._file(file.name), file.content))
            _LOGGER.info("glossary stored", extra={"glossary": file.name, "entries": file.entry_count})
            return self.get(file.name)

    async def delete(self, name: str) -> None:
        """Delete a glossary and its file; raise GlossaryNotFoundError, or GlossaryStateError if that fails."""
        async with self._changing:
            await self._folder.reload()
            self.get(name)
            await self._change(self._file(name).unlink)
            _LOGGER.info("glossary deleted", extra={"glossary": name})

    def _holds(self, file: GlossaryFile, *, replace: bool) -> bool:
        """Return whether a glossary is there already, with the same content."""
        held = {glossary.name: glossary.sha256 for glossary in self._folder.glossaries}
        if held.get(file.name) == file.sha256:
            return True
        # A file that is no valid glossary is somebody's, too.
        exists = file.name in held or self._file(file.name).exists()
        if exists and not replace:
            raise GlossaryExistsError("the server holds another glossary of that name: set `replace`, or delete it")
        if not exists and len(held) >= MAX_FILES:
            raise GlossaryStateError(f"the server holds {len(held)} glossaries, and at most {MAX_FILES}")
        return False

    def _file(self, name: str) -> Path:
        return self._folder.path / f"{name}.tsv"

    async def _change(self, change: Callable[[], object]) -> None:
        try:
            await asyncio.to_thread(change)
        except OSError as error:
            _LOGGER.warning("the folder of the glossaries cannot be written", extra={"reason": str(error)})
            raise GlossaryStateError("the server cannot write into its folder of glossaries") from error
        await self._folder.reload()


def glossary_file(draft: GlossaryDraft) -> GlossaryFile:
    """Return the file of a glossary, which takes a quarter of a second for a large one; InvalidInputError: faults."""
    error = InvalidInputError(chain(_head_violations(draft), _entry_violations(draft.entries)))
    if error.count:
        try:
            raise error
        finally:
            del error  # This frame would keep its own error, and with it the RPC.
    head = [f"# source_language: {draft.source_language}", f"# target_language: {draft.target_language}"]
    head += [f"# version: {draft.version}"] if draft.version else []
    head += [f"# display_name: {draft.display_name}"] if draft.display_name else []
    lines = ("\t".join((entry.source, *entry.targets)) for entry in draft.entries)
    content = "".join(f"{line}\n" for line in (*head, *lines)).encode()
    if len(content) > MAX_FILE_BYTES:
        description = f"must have at most {MAX_FILE_BYTES} bytes as a file, have {len(content)}"
        raise InvalidInputError([FieldViolation(field="entries", description=description)])
    digest = hashlib.sha256(content).hexdigest()
    return GlossaryFile(name=draft.name, content=content, sha256=digest, entry_count=len(draft.entries))


def _head_violations(draft: GlossaryDraft) -> Iterator[FieldViolation]:
    if not PathName.fits(draft.name):
        yield FieldViolation(field="name", description=f"must be {PathName.RULE}")
    for field, code in (
        ("source_language_code", draft.source_language),
        ("target_language_code", draft.target_language),
    ):
        if not _LANGUAGE.fullmatch(code):
            yield FieldViolation(field=field, description="must be a BCP-47 code, such as zh or pt-BR")
    if not _VERSION.fullmatch(draft.version):
        yield FieldViolation(field="version", description="must have at most 64 characters and no white space")
    name = draft.display_name
    if len(name) > MAX_DISPLAY_NAME_CHARACTERS or name != name.strip() or name.splitlines() not in ([], [name]):
        limit = f"at most {MAX_DISPLAY_NAME_CHARACTERS} characters in one line"
        description = f"must have {limit}, without white space at its ends"
        yield FieldViolation(field="display_name", description=description)


def _entry_violations(entries: Sequence[GlossaryEntry]) -> Iterator[FieldViolation]:
    if len(entries) > MAX_FILE_ENTRIES:
        description = f"must have at most {MAX_FILE_ENTRIES} elements, has {len(entries)}"
        yield FieldViolation(field="entries", description=description)
        return
    for number, entry in enumerate(entries):
        for name, fault in (*entry_faults(entry), *_unwritable(entry)):
            yield FieldViolation(field=f"entries[{number}].{name}", description=fault)


def _unwritable(entry: GlossaryEntry) -> Iterator[tuple[str, str]]:
    """Find what a line of a file cannot hold."""
    if entry.source.startswith("#"):
        yield "source", "must not begin with '#'"
    named = (("source", entry.source), *((f"targets[{i}]", target) for i, target in enumerate(entry.targets)))
    for name, text in named:
        if "\t" in text or (text and text.splitlines() != [text]):
            yield name, "must have no tabs and line breaks"


def _write(path: Path, content: bytes) -> None:
    """Write a file, which the watch takes no notice of before it is whole."""
    path.parent.mkdir(exist_ok=True)
    write_whole(path, content)
