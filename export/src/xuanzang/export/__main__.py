"""The commands `xuanzang export` and `restore`; they import nothing before they know that their packages are there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from xuanzang.command.parser import fail

_PACKAGES = ("xuanzang.model", "safetensors", "sacrebleu", "tqdm")


def main(arguments: Sequence[str]) -> int:
    """Run the command.

    Args:
        arguments: Arguments from the command's name on.

    Returns:
        Exit status: 0, 1 if the export is refused or packages are missing, 2 if the arguments are refused.
    """
    name, *flags = arguments
    program = f"xuanzang {name}"
    if missing := [package for package in _PACKAGES if not find_spec(package)]:
        needed = f"checkpoints need {', '.join(missing)}, which the extra `checkpoints` of xuanzang-export brings"
        return fail(program, needed, status=1)
    from xuanzang.export import commands  # noqa: PLC0415 - students become bundles without these packages

    return commands.run(program, name, flags)


if __name__ == "__main__":
    raise SystemExit(main(["export", *sys.argv[1:]]))
