"""The RPCs of glossaries: list, entries, create, delete."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xuanzang.server.access.callers import Caller, GlossaryWriters
from xuanzang.server.engine.terminology.glossaries import Glossary, GlossaryFolder
from xuanzang.server.engine.terminology.glossary_store import GlossaryDraft, GlossaryStore
from xuanzang.server.engine.terminology.terms import GlossaryEntry
from xuanzang.server.rpc.errors import NotOfferedError
from xuanzang.translation.v1 import translation_pb2 as pb

RequirePair = Callable[[str, str], None]
"""Function that refuses a pair of languages that no model translates."""


class GlossaryRpcs:
    """Implementation of the glossary RPCs, for callers who are known."""

    def __init__(self, folder: GlossaryFolder, writers: GlossaryWriters, require_pair: RequirePair) -> None:
        """Make the RPCs.

        Args:
            folder: Glossaries that requests may name.
            writers: Callers who may store glossaries.
            require_pair: `RequestRouter.require_pair`.
        """
        self._require_pair = require_pair
        self._folder = folder
        self._store = GlossaryStore(folder)
        self._writers = writers

    def list_all(self, caller: Caller) -> pb.ListGlossariesResponse:
        """List the glossaries."""
        with caller.charged(()):
            return pb.ListGlossariesResponse(glossaries=map(_message, self._folder.glossaries))

    def entries(self, request: pb.ListGlossaryEntriesRequest, caller: Caller) -> pb.ListGlossaryEntriesResponse:
        """List the entries of one."""
        with caller.charged(()):
            self._require_writer(caller)
            found = self._store.get(request.name)
        return pb.ListGlossaryEntriesResponse(glossary=_message(found), entries=_entry_messages(found.entries))

    async def create(self, request: pb.CreateGlossaryRequest, caller: Caller) -> pb.CreateGlossaryResponse:
        """Store one."""
        with caller.charged(()):
            self._require_writer(caller)
            self._require_pair(request.source_language_code, request.target_language_code)
            stored = await self._store.create(_draft(request), replace=request.replace)
        return pb.CreateGlossaryResponse(glossary=_message(stored))

    async def delete(self, request: pb.DeleteGlossaryRequest, caller: Caller) -> pb.DeleteGlossaryResponse:
        """Delete one."""
        with caller.charged(()):
            self._require_writer(caller)
            await self._store.delete(request.name)
        return pb.DeleteGlossaryResponse()

    def _require_writer(self, caller: Caller) -> None:
        if not self._writers.exist:
            raise NotOfferedError("this server stores no glossaries: its setting --glossary-writers names nobody")
        self._writers.require(caller)


def _draft(request: pb.CreateGlossaryRequest) -> GlossaryDraft:
    return GlossaryDraft(
        name=request.name,
        source_language=request.source_language_code,
        target_language=request.target_language_code,
        version=request.version,
        display_name=request.display_name,
        entries=[
            GlossaryEntry(source=each.source.strip(), targets=tuple(target.strip() for target in each.targets))
            for each in request.entries
        ],
    )


def _entry_messages(entries: Iterable[GlossaryEntry]) -> Iterable[pb.GlossaryEntry]:
    return (pb.GlossaryEntry(source=entry.source, targets=entry.targets) for entry in entries)


def _message(glossary: Glossary) -> pb.Glossary:
    return pb.Glossary(
        name=glossary.name,
        source_language_code=glossary.source_language,
        target_language_code=glossary.target_language,
        version=glossary.version,
        display_name=glossary.display_name,
        entry_count=glossary.entry_count,
        sha256=glossary.sha256,
    )
