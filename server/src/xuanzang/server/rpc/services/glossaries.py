"""The RPCs of glossaries: list, entries, create, delete."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from xuanzang.server.access.callers import Caller, GlossaryWriters
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.glossaries import Glossary, GlossaryDraft, GlossaryFile, GlossaryStore, glossary_file
from xuanzang.server.rpc.context import RpcContext
from xuanzang.server.rpc.errors import NotOfferedError
from xuanzang.server.rpc.messages.terms import entry_of
from xuanzang.translation.v1 import translation_pb2 as pb

# Of an answer, roughly.
_GLOSSARY_BYTES, _ENTRY_BYTES = 200, 40


class GlossaryRpcs:
    """The part of the translation service that keeps the glossaries which requests name."""

    def __init__(self, engine: Engine, writers: GlossaryWriters) -> None:
        self._folder, self._store = engine.glossaries, GlossaryStore(engine.glossaries)
        self._require_pair = engine.router.require_pair
        self._writers = writers

    async def ListGlossaries(
        self, request: pb.ListGlossariesRequest, rpc: RpcContext
    ) -> pb.ListGlossariesResponse | bytes:
        """List the glossaries that requests may name."""
        with rpc.caller.charged(()):
            found = self._folder.glossaries
        work = partial(_glossaries_response, found)
        return await rpc.answer(work, size=_GLOSSARY_BYTES * len(found))

    async def ListGlossaryEntries(
        self, request: pb.ListGlossaryEntriesRequest, rpc: RpcContext
    ) -> pb.ListGlossaryEntriesResponse | bytes:
        """List the entries of a glossary, for callers who may store one."""
        with rpc.caller.charged(()):
            self._require_writer(rpc.caller)
            found = self._store.get(request.name)
        return await rpc.answer(partial(_entries_response, found), size=_ENTRY_BYTES * found.entry_count)

    async def CreateGlossary(self, request: pb.CreateGlossaryRequest, rpc: RpcContext) -> pb.CreateGlossaryResponse:
        """Store a glossary."""
        with rpc.caller.charged(()):
            self._require_writer(rpc.caller)
            file = await rpc.compute(partial(_file_of, request))
            self._require_pair(request.source_language_code, request.target_language_code)
            stored = await self._store.create(file, replace=request.replace)
        return pb.CreateGlossaryResponse(glossary=_message(stored))

    async def DeleteGlossary(self, request: pb.DeleteGlossaryRequest, rpc: RpcContext) -> pb.DeleteGlossaryResponse:
        """Delete a glossary."""
        with rpc.caller.charged(()):
            self._require_writer(rpc.caller)
            await self._store.delete(request.name)
        return pb.DeleteGlossaryResponse()

    def _require_writer(self, caller: Caller) -> None:
        if not self._writers.exist:
            raise NotOfferedError("this server stores no glossaries: its setting --glossary-writers names nobody")
        self._writers.require(caller)


def _file_of(request: pb.CreateGlossaryRequest) -> GlossaryFile:
    return glossary_file(
        GlossaryDraft(
            name=request.name,
            source_language=request.source_language_code,
            target_language=request.target_language_code,
            version=request.version,
            display_name=request.display_name,
            entries=[entry_of(entry) for entry in request.entries],
        )
    )


def _glossaries_response(glossaries: Iterable[Glossary]) -> pb.ListGlossariesResponse:
    return pb.ListGlossariesResponse(glossaries=map(_message, glossaries))


def _entries_response(glossary: Glossary) -> pb.ListGlossaryEntriesResponse:
    entries = (pb.GlossaryEntry(source=entry.source, targets=entry.targets) for entry in glossary.entries)
    return pb.ListGlossaryEntriesResponse(glossary=_message(glossary), entries=entries)


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
