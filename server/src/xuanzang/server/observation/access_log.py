"""The access log: one JSON object per line for each RPC, without texts and without names that callers choose."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import queue
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime

from prometheus_client import Counter

from xuanzang.server.observation.rpc_record import RpcRecord

_LOGGER = logging.getLogger(__name__)

STANDARD_OUTPUT = "-"

# Lines are written together, by a thread, so that a slow disk or reader does not hold RPCs up.
_FLUSH_SECONDS = 0.2
_MAX_WAITING_LINES = 10_000
_CLOSE_SECONDS = 5.0


class AccessLog:
    """Adds lines to a file, opened anew for each group of lines so that it may be moved away. For one event loop."""

    def __init__(self, target: str, *, dropped: Counter) -> None:
        """Open the log.

        Args:
            target: Path of the file, or "-" for standard output.
            dropped: Counter of the lines that are lost because they cannot be written, or not fast enough.

        Raises:
            OSError: The file cannot be written.
        """
        self._target = target
        self._dropped = dropped
        self._lines: list[bytes] = []
        self._accepted = self._done = 0
        self._groups: queue.SimpleQueue[list[bytes] | None] = queue.SimpleQueue()
        self._write(b"")
        self._thread = threading.Thread(target=self._write_groups, name="access-log", daemon=True)
        self._thread.start()

    def add(self, record: RpcRecord, *, code: str, seconds: float) -> None:
        """Add the line of an RPC that has ended.

        Args:
            record: What it took.
            code: Name of its status code.
            seconds: Its duration.
        """
        span = record.span
        self._add(
            {
                "request_id": record.request_id,
                "trace_id": None if span is None else span.exemplar["trace_id"],
                "method": record.method,
                "code": code,
                "seconds": round(seconds, 6),
                "tokenize_seconds": round(record.tokenize_seconds, 6),
                "queue_seconds": round(record.queue_seconds, 6),
                "encode_seconds": round(record.encode_seconds, 6),
                "decode_seconds": round(record.decode_seconds, 6),
                "model": record.model,
                "version": record.version,
                "texts": record.texts,
                "characters": record.characters,
                "sentences": record.sentences,
                "source_tokens": record.source_tokens,
                "target_tokens": record.target_tokens,
                **{f"caller_{name}": value for name, value in record.caller._asdict().items()},
            }
        )

    def add_unread(self, method: str, *, code: str, rpcs: int) -> None:
        """Add a line for RPCs that were refused together, before they were read.

        Args:
            method: Name of the method.
            code: Name of their status code.
            rpcs: Number of the RPCs.
        """
        self._add({"method": method, "code": code, "unread_rpcs": rpcs})

    def close(self) -> None:
        """Write what waits, within a few seconds; lines that come later are lost."""
        self._flush()
        self._groups.put(None)
        self._thread.join(_CLOSE_SECONDS)

    def _add(self, facts: Mapping[str, object]) -> None:
        if self._accepted - self._done >= _MAX_WAITING_LINES:
            self._dropped.inc()
            return
        self._accepted += 1
        if not self._lines:
            asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self._flush)
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._lines.append(json.dumps({"time": time, **facts}, separators=(",", ":")).encode() + b"\n")

    def _flush(self) -> None:
        if self._lines:
            self._groups.put(self._lines)
            self._lines = []

    def _write_groups(self) -> None:
        failing = False
        while (lines := self._groups.get()) is not None:
            try:
                self._write(b"".join(lines))
                failing = False
            except (OSError, ValueError) as error:  # the latter: standard output is closed
                self._dropped.inc(len(lines))
                if not failing:
                    _LOGGER.error("the access log cannot be written", extra={"reason": str(error)})  # noqa: TRY400
                failing = True
            self._done += len(lines)

    def _write(self, data: bytes) -> None:
        if self._target == STANDARD_OUTPUT:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        # Who calls when is for the server's operator and group only.
        file = os.open(self._target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        with os.fdopen(file, "ab") as log:
            log.write(data)
