"""The access log: one JSON object per line for each RPC, without texts and without names that callers choose."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence

from xuanzang.server.metric_series import Counter

_LOGGER = logging.getLogger(__name__)

STANDARD_OUTPUT = "-"

_ENCODER = json.JSONEncoder(separators=(",", ":"))


class AccessLog:
    """Adds lines to a file, opened anew for each group of lines so that it may be moved away. For one thread."""

    def __init__(self, target: str, *, dropped: Counter) -> None:
        """Open a file, "-" for standard output, or raise OSError; `dropped` counts lines that cannot be written."""
        self._target = target
        self._dropped = dropped
        self._failing = False
        self._append(b"")

    def write(self, lines: Sequence[Mapping[str, object]]) -> None:
        """Add lines with one system call; those that cannot be written are counted."""
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
        # Who calls when is for the server's operator and group only.
        file = os.open(self._target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        with os.fdopen(file, "ab") as log:
            log.write(data)
