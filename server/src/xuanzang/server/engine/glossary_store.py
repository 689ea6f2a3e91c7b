"""Glossaries that callers store: checked, and written into the folder whose files requests name."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from xuanzang.server.engine.errors import (
    FieldViolation,
    GlossaryExistsError,
    GlossaryNotFoundError,
    GlossaryStateError,
    InvalidInputError,
)
from xuanzang.server.engine.glossaries import (
    MAX_FILE_BYTES,
    MAX_FILE_ENTRIES,
    MAX_FILES,
    NAME,
    Glossary,
    GlossaryFolder,
    entry_faults,
)
from xuanzang.server.whole_files import write_whole
from xuanzang.text.terminology.terms import GlossaryEntry

_LOGGER = logging.getLogger(__name__)
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,6}")
MAX_DISPLAY_NAME_CHARACTERS = 1024
_VERSION = re.compile(r"\S{0,64}")
_MAX_FAULTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GlossaryDraft:
    """A glossary to store."""

    name: str
    source_language: str
    """BCP-47 code."""
    target_language: str
    version: str
    """What its author wants; may be empty."""
    display_name: str = ""
    entries: Sequence[GlossaryEntry]
    """Its entries, without white space at the ends of their texts."""


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

    async def create(self, draft: GlossaryDraft, *, replace: bool = False) -> Glossary:
        """Store a glossary; one that is there with the same content stays, another one only without `replace`.

        Raises:
            InvalidInputError: The glossary has faults; the error names the first of them.
            GlossaryExistsError: There is another one of its name.
            GlossaryStateError: There are too many, or the file cannot be written.
        """
        content = await asyncio.to_thread(_checked_content, draft)
        async with self._changing:
            await self._folder.reload()
            if self._holds(draft.name, content, replace=replace):
                return self.get(draft.name)
            await self._change(partial(_write, self._file(draft.name), content))
            _LOGGER.info("glossary stored", extra={"glossary": draft.name, "entries": len(draft.entries)})
            return self.get(draft.name)

    async def delete(self, name: str) -> None:
        """Delete a glossary and its file; raise GlossaryNotFoundError, or GlossaryStateError if that fails."""
        async with self._changing:
            await self._folder.reload()
            self.get(name)
            await self._change(self._file(name).unlink)
            _LOGGER.info("glossary deleted", extra={"glossary": name})

    def _holds(self, name: str, content: bytes, *, replace: bool) -> bool:
        """Return whether a glossary is there already, with the same content."""
        held = {glossary.name: glossary.sha256 for glossary in self._folder.glossaries}
        if held.get(name) == hashlib.sha256(content).hexdigest():
            return True
        # A file that is no valid glossary is somebody's, too.
        exists = name in held or self._file(name).exists()
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


def _checked_content(draft: GlossaryDraft) -> bytes:
    """Return what a glossary's file holds; raise InvalidInputError for its faults."""
    entries = islice(_entry_violations(draft.entries), _MAX_FAULTS)
    if violations := [*_head_violations(draft), *entries]:
        raise InvalidInputError(violations)
    head = [f"# source_language: {draft.source_language}", f"# target_language: {draft.target_language}"]
    head += [f"# version: {draft.version}"] if draft.version else []
    head += [f"# display_name: {draft.display_name}"] if draft.display_name else []
    lines = ("\t".join((entry.source, *entry.targets)) for entry in draft.entries)
    content = "".join(f"{line}\n" for line in (*head, *lines)).encode()
    if len(content) > MAX_FILE_BYTES:
        description = f"must have at most {MAX_FILE_BYTES} bytes as a file, have {len(content)}"
        raise InvalidInputError([FieldViolation(field="entries", description=description)])
    return content


def _head_violations(draft: GlossaryDraft) -> Iterator[FieldViolation]:
    if not NAME.fullmatch(draft.name):
        description = "must be 1 to 63 of a-z, 0-9, '-', '_' and '.', the first a letter or digit"
        yield FieldViolation(field="name", description=description)
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
