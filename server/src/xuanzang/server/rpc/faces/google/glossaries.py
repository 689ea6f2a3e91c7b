"""Google's methods of glossaries, on those that the server holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from google.cloud.translate_v3.types import translation_service as types
from google.longrunning.operations_pb2 import Operation
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.rpc.context import RpcContext
from xuanzang.server.rpc.faces.google.glossary_entries import added, found, paired, read_pair, removed, written
from xuanzang.server.rpc.faces.google.names import (
    entry_name,
    glossary_resource,
    location_of,
    parent_violations,
    stored_name,
)
from xuanzang.server.rpc.faces.google.pages import page_of
from xuanzang.server.rpc.methods import RpcFunction
from xuanzang.server.rpc.services.glossaries import GlossaryRpcs
from xuanzang.translation.v1 import translation_pb2 as pb

_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "name": "glossary.name",
        "source_language_code": "glossary.language_pair.source_language_code",
        "target_language_code": "glossary.language_pair.target_language_code",
    }
)
_NO_FILES = "must be unset: this server fetches no files; add entries with CreateGlossaryEntry"
_REFUSED: Mapping[str, str] = MappingProxyType(
    {"input_config": _NO_FILES, "language_codes_set": "must be unset: a glossary has a language_pair"}
)


class GlossaryMethods:
    """The methods, of which those that change something are for callers who may store glossaries."""

    def __init__(self, rpcs: GlossaryRpcs) -> None:
        """Make the methods.

        Args:
            rpcs: What the server's own service does.
        """
        self._rpcs = rpcs

    @property
    def by_name(self) -> Mapping[str, tuple[RpcFunction, Any]]:
        """Functions and types of their requests."""
        return {
            "ListGlossaries": (self.list_all, types.ListGlossariesRequest),
            "GetGlossary": (self.get, types.GetGlossaryRequest),
            "CreateGlossary": (self.create, types.CreateGlossaryRequest),
            "DeleteGlossary": (self.delete, types.DeleteGlossaryRequest),
            "ListGlossaryEntries": (self.list_entries, types.ListGlossaryEntriesRequest),
            "GetGlossaryEntry": (self.get_entry, types.GetGlossaryEntryRequest),
            "CreateGlossaryEntry": (self.create_entry, types.CreateGlossaryEntryRequest),
            "DeleteGlossaryEntry": (self.delete_entry, types.DeleteGlossaryEntryRequest),
        }

    async def list_all(self, request: Any, rpc: RpcContext) -> Any:
        """List the glossaries."""
        violations = list(parent_violations(request.parent))
        if request.filter:
            violations.append(FieldViolation(field="filter", description="must be unset: all glossaries are listed"))
        if violations:
            raise InvalidInputError(violations)
        page, following = page_of(self._rpcs.list_all(rpc.caller).glossaries, request)
        listed = [_glossary(glossary_resource(request.parent, each.name), each) for each in page]
        return types.ListGlossariesResponse.pb()(glossaries=listed, next_page_token=following)

    async def get(self, request: Any, rpc: RpcContext) -> Any:
        """Return one."""
        return _glossary(request.name, self._rpcs.get(stored_name(request.name, field="name"), rpc.caller))

    async def create(self, request: Any, rpc: RpcContext) -> Operation:
        """Store an empty one."""
        asked = request.glossary
        faults = list(parent_violations(request.parent))
        for field, description in _REFUSED.items():
            if asked.HasField(field):
                faults.append(FieldViolation(field=f"glossary.{field}", description=description))
        if faults:
            raise InvalidInputError(faults)
        pair = asked.language_pair
        wanted = pb.CreateGlossaryRequest(
            name=stored_name(asked.name, field="glossary.name"),
            source_language_code=pair.source_language_code,
            target_language_code=pair.target_language_code,
        )
        try:
            made = (await self._rpcs.create(wanted, rpc.caller)).glossary
        except InvalidInputError as error:
            raise renamed(error, _NAMES) from None
        metadata = types.CreateGlossaryMetadata.pb()(name=asked.name, state="SUCCEEDED")
        return _done(asked.name, "create", metadata, _glossary(asked.name, made))

    async def delete(self, request: Any, rpc: RpcContext) -> Operation:
        """Delete one."""
        await self._rpcs.delete(pb.DeleteGlossaryRequest(name=stored_name(request.name, field="name")), rpc.caller)
        metadata = types.DeleteGlossaryMetadata.pb()(name=request.name, state="SUCCEEDED")
        return _done(request.name, "delete", metadata, types.DeleteGlossaryResponse.pb()(name=request.name))

    async def list_entries(self, request: Any, rpc: RpcContext) -> Any:
        """List the entries of one."""
        glossary, entries = self._entries(request.parent, rpc, field="parent")
        page, following = page_of(paired(entries), request)
        listed = [written(request.parent, glossary, each) for each in page]
        return types.ListGlossaryEntriesResponse.pb()(glossary_entries=listed, next_page_token=following)

    async def get_entry(self, request: Any, rpc: RpcContext) -> Any:
        """Return an entry."""
        resource, wanted = entry_name(request.name, field="name")
        glossary, entries = self._entries(resource, rpc, field="name")
        return written(resource, glossary, found(paired(entries), wanted))

    async def create_entry(self, request: Any, rpc: RpcContext) -> Any:
        """Add an entry."""
        name, caller = stored_name(request.parent, field="parent"), rpc.caller
        glossary = self._rpcs.get(name, caller)
        pair = read_pair(request.glossary_entry, glossary)
        try:
            await self._rpcs.edit(name, lambda entries: added(entries, pair), caller)
        except InvalidInputError as error:
            raise _about_pair(error) from None
        return written(request.parent, glossary, pair)

    async def delete_entry(self, request: Any, rpc: RpcContext) -> Any:
        """Remove an entry."""
        resource, wanted = entry_name(request.name, field="name")
        name = stored_name(resource, field="name")
        await self._rpcs.edit(name, lambda entries: removed(entries, wanted), rpc.caller)
        return Empty()

    def _entries(self, resource: str, rpc: RpcContext, *, field: str) -> tuple[pb.Glossary, Sequence[pb.GlossaryEntry]]:
        wanted = pb.ListGlossaryEntriesRequest(name=stored_name(resource, field=field))
        answer = self._rpcs.entries(wanted, rpc.caller)
        return answer.glossary, answer.entries


def renamed(error: InvalidInputError, names: Mapping[str, str]) -> InvalidInputError:
    """Return the same error with the names of Google's fields.

    Args:
        error: Error about a request of the server's own.
        names: Google's fields by those of the server.
    """
    return InvalidInputError(
        FieldViolation(field=names.get(fault.field, fault.field), description=fault.description)
        for fault in error.violations
    )


def _about_pair(error: InvalidInputError) -> InvalidInputError:
    """Return the same error about the pair that was added, whose place in the glossary its caller does not know."""
    faults = [fault.description for fault in error.violations]
    return InvalidInputError(FieldViolation(field="glossary_entry.terms_pair", description=each) for each in faults)


def _glossary(resource: str, glossary: pb.Glossary) -> Any:
    return types.Glossary.pb()(
        name=resource,
        language_pair={
            "source_language_code": glossary.source_language_code,
            "target_language_code": glossary.target_language_code,
        },
        entry_count=glossary.entry_count,
        display_name=glossary.name,
    )


def _done(resource: str, what: str, metadata: Message, result: Message) -> Operation:
    """Return an operation that is over, of which nothing more can be asked."""
    name = resource.rpartition("/")[2]
    operation = Operation(name=f"{location_of(resource)}/operations/{what}-{name}", done=True)
    operation.metadata.Pack(metadata)
    operation.response.Pack(result)
    return operation
