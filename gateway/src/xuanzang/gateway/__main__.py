"""The command `xuanzang gateway`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from xuanzang.gateway.logs import configure_logging
from xuanzang.gateway.serving import serve
from xuanzang.gateway.settings import read_settings

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


if __name__ == "__main__":
    raise SystemExit(main(["gateway", *sys.argv[1:]]))
