"""The command `xuanzang gateway`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from xuanzang.gateway.serving import serve
from xuanzang.gateway.settings import read_settings
from xuanzang.serving.log_lines import JsonFormatter

_LOGGER = logging.getLogger("xuanzang.gateway")


def main(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM.

    Args:
        arguments: Arguments from the command's name on.

    Returns:
        Exit status: 0 after a drain, 1 if the gateway cannot serve.
    """
    settings = read_settings(arguments[1:])
    configure_logging(settings.log_level)
    try:
        serve(settings)
    except (OSError, ValueError) as error:
        _LOGGER.error("cannot serve", extra={"reason": str(error)})  # noqa: TRY400 - the reason is enough
        return 1
    return 0


def configure_logging(level: str) -> None:
    """Write the events of every module's logger to stderr, one JSON object each, without anything of callers.

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


if __name__ == "__main__":
    raise SystemExit(main(["gateway", *sys.argv[1:]]))
