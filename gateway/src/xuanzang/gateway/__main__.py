"""The command `xuanzang-gateway`."""

from __future__ import annotations

import logging
import sys
from importlib.metadata import version

from xuanzang.gateway.logs import configure_logging
from xuanzang.gateway.serving import serve
from xuanzang.gateway.settings import read_settings

_LOGGER = logging.getLogger("xuanzang.gateway")


def main() -> int:
    """Serve until SIGTERM.

    Returns:
        Exit status: 0 after a drain, 1 if the gateway cannot serve.
    """
    if sys.argv[1:] == ["--version"]:
        print(f"xuanzang-gateway {version('xuanzang-gateway')}")
        return 0
    settings = read_settings(sys.argv[1:])
    configure_logging(settings.log_level)
    try:
        serve(settings)
    except (OSError, ValueError) as error:
        _LOGGER.error("cannot serve", extra={"reason": str(error)})  # noqa: TRY400 - the reason is enough
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
