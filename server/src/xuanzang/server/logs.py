"""Structured logs: one event per line, with its facts as fields. Text and language of users are never logged."""

from __future__ import annotations

import logging
import sys
import time

import structlog


def configure_logging(*, level: str, log_format: str) -> None:
    """Write the events of every module's `logging` logger to stderr.

    Fields of an event are passed as `extra`: `_LOGGER.info("listening", extra={"address": address})`.

    Args:
        level: Lowest level that is logged: "debug", "info", "warning" or "error".
        log_format: "json" for one object per line, "console" for lines that people read.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    final: list[structlog.typing.Processor]
    if log_format == "json":
        final = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]
    else:
        final = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    handler.addFilter(_HeaderFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class _HeaderFilter(logging.Filter):
    """Keeps the bytes of callers' headers out of the lines of gRPC, and lets one of those lines through a second."""

    def __init__(self) -> None:
        super().__init__()
        self._silent_until = 0.0
        self._dropped = 0

    def filter(self, record: logging.LogRecord) -> bool:
        # The words of grpc._cython, whose argument is the header and whose traceback quotes it.
        if not record.name.startswith("grpc") or not str(record.msg).startswith("Invalid encoding on"):
            return True
        now = time.monotonic()
        if now < self._silent_until:
            self._dropped += 1
            return False
        record.msg, record.args, record.exc_info = "a header is not UTF-8", (), None
        record.levelno, record.levelname = logging.INFO, "INFO"
        record.repeated = self._dropped
        self._silent_until, self._dropped = now + 1, 0
        return True
