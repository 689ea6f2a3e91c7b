"""Ids, spans and access log lines of the RPCs of the translation service."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, cast

import grpc

from xuanzang.server.access.callers import Caller
from xuanzang.server.observation.access_log import AccessLog
from xuanzang.server.observation.callers import CallerFacts, address_class
from xuanzang.server.observation.rpc_record import RpcRecord
from xuanzang.server.rpc.context import CLIENT_ID, Context, IdentifiedContext
from xuanzang.server.rpc.health.service import TRANSLATION_SERVICE
from xuanzang.server.rpc.interceptors.base import Rpc
from xuanzang.server.rpc.request_ids import REQUEST_ID, chosen_id

if TYPE_CHECKING:
    from xuanzang.server.observation.tracing import Tracing


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is recorded of single RPCs; without traces and access log they have only ids."""

    tracing: Tracing | None = None
    access_log: AccessLog | None = None

    def begin(self, rpc: Rpc, context: Context) -> RpcRecord | None:
        """Give an RPC its id, and begin its record if somebody wants it.

        Args:
            rpc: Identity of the RPC.
            context: Context of the RPC, which gets the id and the record.

        Returns:
            The record; None if nobody wants it.
        """
        metadata = dict(context.invocation_metadata() or ())
        request_id = chosen_id(metadata)
        context.set_trailing_metadata(((REQUEST_ID, request_id),))
        identified = cast("IdentifiedContext", context)
        identified.request_id = request_id
        span = None if self.tracing is None else self.tracing.begin(rpc.grpc_service, rpc.grpc_method, metadata)
        if span is None and self.access_log is None:
            return None
        caller = _caller_facts(identified, has_client_id=CLIENT_ID in metadata)
        identified.observer = record = RpcRecord(request_id=request_id, method=_method(rpc), caller=caller, span=span)
        return record

    def end(self, record: RpcRecord, code: grpc.StatusCode, seconds: float) -> None:
        """Write the line of an RPC that has ended, and end its span.

        Args:
            record: Its record.
            code: Its status.
            seconds: Its duration.
        """
        if self.access_log is not None:
            self.access_log.add(record, code=code.name, seconds=seconds)
        if record.span is not None:
            record.span.end(code.name, code.value[0], _attributes(record))

    def end_unread(self, rpc: Rpc, code: grpc.StatusCode, rpcs: int) -> None:
        """Write a line for RPCs that were refused unread.

        Args:
            rpc: Their identity.
            code: Their status.
            rpcs: Number of the RPCs.
        """
        if self.access_log is not None:
            self.access_log.add_unread(_method(rpc), code=code.name, rpcs=rpcs)

    def close(self) -> None:
        """Send and write what waits, within a few seconds."""
        if self.tracing is not None:
            self.tracing.close()
        if self.access_log is not None:
            self.access_log.close()


def _method(rpc: Rpc) -> str:
    """Return the name of a method, with its service if that is a face."""
    is_own = rpc.grpc_service == TRANSLATION_SERVICE
    return rpc.grpc_method if is_own else f"{rpc.grpc_service}/{rpc.grpc_method}"


def _caller_facts(context: IdentifiedContext, *, has_client_id: bool) -> CallerFacts:
    address, identity = address_class(cast("Context", context).peer()), context.identity
    if not isinstance(identity, Caller):
        return CallerFacts("refused", None, address)
    if identity.key_id is not None:
        return CallerFacts("key", identity.key_id, address)
    return CallerFacts("client_id" if has_client_id else "address", None, address)


def _attributes(record: RpcRecord) -> dict[str, str | int | float]:
    attributes: dict[str, str | int | float] = {
        "xuanzang.request_id": record.request_id,
        "xuanzang.caller": record.caller.kind,
        "xuanzang.texts": record.texts,
        "xuanzang.characters": record.characters,
        "xuanzang.sentences": record.sentences,
        "xuanzang.source_tokens": record.source_tokens,
        "xuanzang.target_tokens": record.target_tokens,
    }
    if record.model is not None and record.version is not None:
        attributes |= {"xuanzang.model": record.model, "xuanzang.version": record.version}
    return attributes
