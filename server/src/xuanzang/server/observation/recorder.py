"""The thread that makes the lines and spans of RPCs, many at a time, so that the event loop need not."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Sequence

from xuanzang.server.metric_series import Counter
from xuanzang.server.observation.access_log import AccessLog
from xuanzang.server.observation.rpc_record import RpcRecord, UnreadRpcs

_LOGGER = logging.getLogger(__name__)

# What is done for many at a time finds its code and data in the processor's caches: it takes half as long.
_GATHERING_SECONDS = 0.2
_MAX_WAITING = 10_000
_CLOSE_SECONDS = 5.0


class Recorder:
    """Takes RPCs that have ended, and hands their spans and lines on in groups. For one event loop."""

    def __init__(self, access_log: AccessLog | None, *, dropped: Counter) -> None:
        """Start the thread.

        Args:
            access_log: Receiver of the lines; None for none.
            dropped: Counter of the RPCs that are lost because others wait for too slow a log.
        """
        self.access_log = access_log
        """Receiver of the lines; None for none."""
        self._dropped = dropped
        self._gathered: list[RpcRecord | UnreadRpcs] = []
        self._accepted = self._done = 0
        self._groups: queue.SimpleQueue[list[RpcRecord | UnreadRpcs] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def add(self, ended: RpcRecord | UnreadRpcs) -> None:
        """Take an RPC that has ended, or RPCs that were refused unread.

        Args:
            ended: What is known of it, which nobody may change any more.
        """
        if self._accepted - self._done >= _MAX_WAITING:
            self._dropped.inc()
            return
        self._accepted += 1
        if not self._gathered:
            asyncio.get_running_loop().call_later(_GATHERING_SECONDS, self._hand_over)
        self._gathered.append(ended)

    def close(self) -> None:
        """Hand on what waits, within a few seconds; what comes later is lost."""
        self._hand_over()
        self._groups.put(None)
        self._thread.join(_CLOSE_SECONDS)

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

    def _record(self, group: Sequence[RpcRecord | UnreadRpcs]) -> None:
        for ended in group:
            if isinstance(ended, RpcRecord):
                ended.finish()
        # The last, because a slow disk must not keep the spans.
        if self.access_log is not None:
            self.access_log.write([ended.facts() for ended in group])
