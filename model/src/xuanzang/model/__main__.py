"""The commands of `xuanzang` that make, measure and use checkpoints; only those that train need torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from xuanzang.command.parser import fail
from xuanzang.command.settings import read_flags
from xuanzang.model.command import Command
from xuanzang.model.importing.command import ImportCommand

_TRAINING_PACKAGES = ("torch", "sacrebleu", "tensorboard", "opencc")


def main(arguments: Sequence[str]) -> int:
    """Run a command.

    Args:
        arguments: Arguments from the command's name on.

    Returns:
        Exit status: 0, 1 when training diverged or packages are missing, 2 for wrong flags or input, 130 when
        interrupted.
    """
    name, *flags = arguments or ("",)
    program = f"xuanzang {name}"
    try:
        return _run(ImportCommand, program, flags) if name == "import" else _train(name, program, flags)
    except (ValueError, OSError) as error:
        return fail(program, str(error))
    except KeyboardInterrupt:
        return fail(program, "interrupted", status=130)


def _run(command: type[Command], program: str, flags: Sequence[str]) -> int:
    read_flags(command, flags, program=program).run()
    return 0


def _train(name: str, program: str, flags: Sequence[str]) -> int:
    """Run a command that needs torch."""
    if missing := [package for package in _TRAINING_PACKAGES if not find_spec(package)]:
        needed = f"this needs {', '.join(missing)}, which the extra `training` of xuanzang-model brings"
        return fail(program, needed, status=1)
    # ruff: noqa: PLC0415 - an import of a model does without these packages
    from xuanzang.model.commands import COMMANDS
    from xuanzang.model.evaluation.attention_pictures import PictureError
    from xuanzang.model.training.trainer import DivergedError

    if name not in COMMANDS:
        known = ", ".join([*COMMANDS, "import"])
        return fail("xuanzang", f"the first argument must be one of {known}, got {name!r}")
    try:
        return _run(COMMANDS[name], program, flags)
    except PictureError as error:
        return fail(program, str(error))
    except DivergedError as error:
        return fail(program, str(error), status=1)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
