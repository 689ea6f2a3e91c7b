"""Log lines: one JSON object per event on stderr. Texts, keys and query strings of callers are in none."""

from __future__ import annotations

import logging
import sys

from xuanzang.command.log_lines import JsonFormatter


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
