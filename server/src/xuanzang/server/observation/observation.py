"""Ids, spans and access log lines of RPCs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xuanzang.server.access.callers import Caller
from xuanzang.server.observation.callers import CallerFacts, address_class
from xuanzang.server.observation.recorder import Recorder
from xuanzang.server.observation.rpc_record import RpcRecord, UnreadRpcs

if TYPE_CHECKING:
    from xuanzang.server.observation.tracing import Tracing


class Observation:
    """Records of single RPCs; without traces and access log they have only ids."""

    def __init__(self, recorder: Recorder | None = None, *, tracing: Tracing | None = None) -> None:
        """Begin.

        Args:
            recorder: Receiver of the RPCs that have ended; None for none.
            tracing: Maker of the spans, which the recorder ends; None for no traces.
        """
        self._recorder = recorder
        self._tracing = tracing
        self.observes = recorder is not None
        """True if anything is recorded of an RPC."""
        self._has_log = recorder is not None and recorder.access_log is not None

    def begin(
        self,
        *,
        service: str,
        method: str,
        request_id: str,
        metadata: Mapping[str, str | bytes],
        caller: Caller | None,
        peer: str,
        has_client_id: bool,
    ) -> RpcRecord | None:
        """Begin the record of an RPC if somebody wants it.

        Args:
            service: Full name of its service.
            method: Name of its method.
            request_id: Its id.
            metadata: What the caller sent with it.
            caller: Who calls; None for one who may not.
            peer: Peer in gRPC's form.
            has_client_id: Whether the caller, without a key, chose a name.
        """
        span = None if self._tracing is None else self._tracing.begin(service, method, metadata)
        if span is None and not self._has_log:
            return None
        address = address_class(peer)
        if caller is None:
            facts = CallerFacts("refused", None, address)
        elif caller.key_id is not None:
            facts = CallerFacts("key", caller.key_id, address)
        else:
            facts = CallerFacts("client_id" if has_client_id else "address", None, address)
        return RpcRecord(request_id=request_id, method=method, caller=facts, span=span)

    def end(self, record: RpcRecord, code: str, code_number: int, seconds: float) -> None:
        """Record the end of an RPC.

        Args:
            record: Its record, which belongs to the recorder from now on.
            code: Name of its status.
            code_number: Number of its status.
            seconds: Its duration.
        """
        if self._recorder is not None:
            record.end(code, code_number, seconds)
            self._recorder.add(record)

    def end_unread(self, method: str, code: str, rpcs: int, *, reason: str) -> None:
        """Write a line for RPCs that were refused unread.

        Args:
            method: Name of their method.
            code: Name of their status.
            rpcs: Number of the RPCs.
            reason: Word for what there was too little of.
        """
        if self._recorder is not None and self._has_log:
            self._recorder.add(UnreadRpcs(method=method, code=code, rpcs=rpcs, reason=reason))

    def close(self) -> None:
        """Send and write what waits, within a few seconds."""
        if self._recorder is not None:
            self._recorder.close()
        if self._tracing is not None:
            self._tracing.close()
