"""Ids, spans and access log lines of the RPCs of the translation service."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import grpc

from xuanzang.server.access.callers import Caller
from xuanzang.server.observation.callers import CallerFacts, address_class
from xuanzang.server.observation.recorder import Recorder
from xuanzang.server.observation.rpc_record import RpcRecord, UnreadRpcs
from xuanzang.server.rpc.context import CLIENT_ID, Context, IdentifiedContext
from xuanzang.server.rpc.health.service import TRANSLATION_SERVICE
from xuanzang.server.rpc.interceptors.base import Rpc
from xuanzang.server.rpc.request_ids import REQUEST_ID, chosen_id

if TYPE_CHECKING:
    from xuanzang.server.observation.tracing import Tracing


class Observation:
    """What is recorded of single RPCs; without traces and access log they have only ids."""

    def __init__(self, recorder: Recorder | None = None, *, tracing: Tracing | None = None) -> None:
        """Begin.

        Args:
            recorder: Receiver of the RPCs that have ended; None for none.
            tracing: Maker of the spans, which the recorder ends; None for no traces.
        """
        self._recorder = recorder
        self._tracing = tracing
        self._has_log = recorder is not None and recorder.access_log is not None

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
        span = None if self._tracing is None else self._tracing.begin(rpc.grpc_service, rpc.grpc_method, metadata)
        if span is None and not self._has_log:
            return None
        caller = _caller_facts(identified, has_client_id=CLIENT_ID in metadata)
        identified.observer = record = RpcRecord(request_id=request_id, method=_method(rpc), caller=caller, span=span)
        return record

    def end(self, record: RpcRecord, code: grpc.StatusCode, seconds: float) -> None:
        """Record the end of an RPC.

        Args:
            record: Its record, which belongs to the recorder from now on.
            code: Its status.
            seconds: Its duration.
        """
        if self._recorder is not None:
            record.end(code.name, code.value[0], seconds)
            self._recorder.add(record)

    def end_unread(self, rpc: Rpc, code: grpc.StatusCode, rpcs: int) -> None:
        """Write a line for RPCs that were refused unread.

        Args:
            rpc: Their identity.
            code: Their status.
            rpcs: Number of the RPCs.
        """
        if self._recorder is not None and self._has_log:
            self._recorder.add(UnreadRpcs(method=_method(rpc), code=code.name, rpcs=rpcs))

    def close(self) -> None:
        """Send and write what waits, within a few seconds."""
        if self._recorder is not None:
            self._recorder.close()
        if self._tracing is not None:
            self._tracing.close()


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
