"""Records of RPCs: begun and ended in the event loop; a thread makes spans of them, and lines of the access log."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xuanzang.server.access.callers import Caller
from xuanzang.server.metric_series import Counter
from xuanzang.server.observation.callers import CallerFacts, address_class
from xuanzang.server.observation.rpc_record import RpcRecord, date_of

if TYPE_CHECKING:
    from xuanzang.server.observation.tracing import Tracing

_LOGGER = logging.getLogger(__name__)

STANDARD_OUTPUT = "-"

_ENCODER = json.JSONEncoder(separators=(",", ":"))

# Work in batches finds its code and data in the processor's caches and takes half as long.
_GATHERING_SECONDS = 0.2
_MAX_WAITING = 10_000
_CLOSE_SECONDS = 5.0

_Ended = RpcRecord | Mapping[str, object]


class AccessLog:
    """Adds lines to a file, opened anew for each group of lines so that it may be moved away. For one thread."""

    def __init__(self, target: str, *, dropped: Counter) -> None:
        """Open a file, "-" for standard output, or raise OSError; `dropped` counts lines that cannot be written."""
        self._target = target
        self._dropped = dropped
        self._failing = False
        self._append(b"")

    def write(self, lines: Sequence[Mapping[str, object]]) -> None:
        """Add lines with one system call; lines that cannot be written are counted."""
        try:
            self._append("".join(f"{_ENCODER.encode(facts)}\n" for facts in lines).encode())
            self._failing = False
        except (OSError, ValueError) as error:  # the latter: standard output is closed
            self._dropped.inc(len(lines))
            if not self._failing:
                _LOGGER.error("the access log cannot be written", extra={"reason": str(error)})  # noqa: TRY400
            self._failing = True

    def _append(self, data: bytes) -> None:
        if self._target == STANDARD_OUTPUT:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        # Only the server's operator and group may see who calls when.
        file = os.open(self._target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        with os.fdopen(file, "ab") as log:
            log.write(data)


class Observation:
    """Records of single RPCs; without traces and access log they have only ids. For one event loop."""

    def __init__(
        self, access_log: AccessLog | None = None, *, tracing: Tracing | None = None, dropped: Counter | None = None
    ) -> None:
        """Start the thread if there is anything to record; `dropped` counts RPCs that wait for too slow a log."""
        self._access_log, self._tracing = access_log, tracing
        self._dropped = dropped or Counter()
        self.observes = access_log is not None or tracing is not None
        """True if anything is recorded of an RPC."""
        self._gathered: list[_Ended] = []
        self._accepted = self._done = 0
        self._groups: queue.SimpleQueue[list[_Ended] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        if self.observes:
            self._thread.start()

    def begin(
        self,
        *,
        service: str,
        method: str,
        request_id: str,
        metadata: Mapping[str, str | bytes],
        caller: Caller | None,
        host: str,
        has_client_id: bool,
    ) -> RpcRecord | None:
        """Begin the record of an RPC if it is needed; `caller` is None if it may not call."""
        span = None if self._tracing is None else self._tracing.begin(service, method, metadata)
        if span is None and self._access_log is None:
            return None
        address = address_class(host)
        if caller is None:
            facts = CallerFacts("refused", None, address)
        elif caller.key_id is not None:
            facts = CallerFacts("key", caller.key_id, address)
        else:
            facts = CallerFacts("client_id" if has_client_id else "address", None, address)
        return RpcRecord(request_id=request_id, method=method, caller=facts, span=span)

    def end(self, record: RpcRecord, code: str, code_number: int, seconds: float) -> None:
        """Record the end of an RPC, whose record is final then."""
        record.end(code, code_number, seconds)
        self._add(record)

    def end_unread(self, method: str, code: str, rpcs: int, *, reason: str) -> None:
        """Write a line for RPCs that were refused unread, with a word for the scarce resource."""
        if self._access_log is not None:
            line = {"time": date_of(time.time_ns()), "method": method, "code": code}
            self._add({**line, "reason": reason, "unread_rpcs": rpcs})

    def close(self) -> None:
        """Send and write waiting records, within a few seconds; later ones are lost."""
        if self.observes:
            self._hand_over()
            self._groups.put(None)
            self._thread.join(_CLOSE_SECONDS)
        if self._tracing is not None:
            self._tracing.close()

    def _add(self, ended: _Ended) -> None:
        if self._accepted - self._done >= _MAX_WAITING:
            self._dropped.inc()
            return
        self._accepted += 1
        if not self._gathered:
            asyncio.get_running_loop().call_later(_GATHERING_SECONDS, self._hand_over)
        self._gathered.append(ended)

    def _hand_over(self) -> None:
        if self._gathered:
            self._groups.put(self._gathered)
            self._gathered = []

    def _run(self) -> None:
        while (group := self._groups.get()) is not None:
            try:
                self._record(group)
            except Exception:  # the thread must live on
                _LOGGER.exception("ended RPCs could not be recorded", extra={"rpcs": len(group)})
            self._done += len(group)

    def _record(self, group: Sequence[_Ended]) -> None:
        for ended in group:
            if isinstance(ended, RpcRecord):
                ended.finish()
        # The last, because a slow disk must not keep the spans.
        if self._access_log is not None:
            self._access_log.write([each.facts() if isinstance(each, RpcRecord) else each for each in group])
