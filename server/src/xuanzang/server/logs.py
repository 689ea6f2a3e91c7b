"""Structured logs: one event per line, with its facts as fields. Text and language of users are never logged."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter

from xuanzang.serving.log_lines import JsonFormatter, TextFormatter


def configure_logging(*, level: str, log_format: str) -> None:
    """Write the events of every module's `logging` logger to stderr, as JSON or as "console" lines for people.

    "auto" is "console" on a terminal, else JSON.

    Fields of an event are passed as `extra`: `_LOGGER.info("listening", extra={"address": address})`.
    """
    handler = logging.StreamHandler(sys.stderr)
    if log_format == "auto":
        log_format = "console" if sys.stderr.isatty() else "json"
    if log_format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(_ConsoleFormatter())
        # All settings fill a screen.
        handler.addFilter(lambda record: record.getMessage() != "settings" or level == "debug")
    handler.addFilter(_CallerFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


# Addresses that the command calls without being told one.
_CALLED_BY_DEFAULT = ("127.0.0.1:50051", "localhost:50051")


class _ConsoleFormatter(TextFormatter):
    """Writes events for people, and what to do once the server serves."""

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        if record.getMessage() != "serving":
            return line
        facts = vars(record)
        models, address = ", ".join(facts["models"]), facts["address"]
        flag = "" if address in _CALLED_BY_DEFAULT else f" --address {address}"
        text = "Good morning." if any(name.startswith("en") for name in facts["models"]) else "早上好。"
        return f'{line}\nServing {models} on {address}. Try: xuanzang translate{flag} "{text}"'


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
