"""Log lines: one JSON object per event on stderr. Texts, keys and query strings of callers are in none."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


class JsonFormatter(logging.Formatter):
    """Writes an event with the fields that were passed as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line.

        Args:
            record: Event.
        """
        line: dict[str, object] = {
            "event": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in _OWN},
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure_logging(level: str) -> None:
    """Write the events of every module's logger to stderr.

    Args:
        level: Lowest level that is logged: "debug", "info", "warning" or "error".
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Its warnings about broken requests hold nothing of them; its other lines say what ours say.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    for name in ("python_multipart", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # It writes a traceback for each path that is not UTF-8, as anyone may send them.
    logging.getLogger("grpc._common").setLevel(logging.CRITICAL)
