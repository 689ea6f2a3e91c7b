"""Log lines of the commands that serve: an event a line, with the fields that were passed as `extra`."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


class JsonFormatter(logging.Formatter):
    """Writes an event as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        line = {
            "event": record.getMessage(),
            **_fields(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": _timestamp(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """Writes an event as text for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and the traceback of an exception below it."""
        fields = [f"{name}={value}" for name, value in sorted(_fields(record).items())]
        begin = f"{_timestamp(record)} [{record.levelname.lower():8}] {record.getMessage():30}"
        line = " ".join([begin, f"[{record.name}]", *fields])
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD_ATTRIBUTES}


def _timestamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
