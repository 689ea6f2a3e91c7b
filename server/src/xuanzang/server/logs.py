"""Structured logs: one event per line, with its facts as fields. Text and language of users are never logged."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter

from xuanzang.command.log_lines import JsonFormatter, TextFormatter


def configure_logging(*, level: str, log_format: str) -> None:
    """Write the events of every module's `logging` logger to stderr, as JSON or as "console" lines for people.

    Fields of an event are passed as `extra`: `_LOGGER.info("listening", extra={"address": address})`.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    handler.addFilter(_CallerFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class _CallerFilter(logging.Filter):
    """Rewords what gRPC logs as errors of its callers, without their bytes, and passes one of a kind a second."""

    def __init__(self) -> None:
        super().__init__()
        self._silent_until: dict[str, float] = {}
        self._dropped: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        event = _event_of(record)
        if event is None:
            return True
        now = time.monotonic()
        if now < self._silent_until.get(event, 0):
            self._dropped[event] += 1
            return False
        record.msg, record.args, record.exc_info = event, (), None
        record.levelno, record.levelname = logging.INFO, "INFO"
        record.repeated = self._dropped.pop(event, 0)
        self._silent_until[event] = now + 1
        return True


def _event_of(record: logging.LogRecord) -> str | None:
    """Return our words for a line of grpc._cython; None for lines of others, and for other lines."""
    if not record.name.startswith("grpc"):
        return None
    message = str(record.msg)
    # Its argument is the header, and its traceback quotes it.
    if message.startswith("Invalid encoding on"):
        return "a header is not UTF-8"
    if message.startswith("ExecuteBatchError raised in core"):
        return "a caller hung up while it was answered"
    return None
