"""The commands of `xuanzang` that make, measure and use checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from xuanzang.command.parser import fail
from xuanzang.command.settings import read_flags
from xuanzang.model.commands import (
    AttentionCommand,
    Command,
    EvaluateCommand,
    ImportCommand,
    PrepareCommand,
    ShortlistCommand,
    ShrinkCommand,
    TrainCommand,
    TryCommand,
)
from xuanzang.model.inspection.attention_pictures import PictureError
from xuanzang.model.training.trainer import DivergedError

COMMANDS: Mapping[str, type[Command]] = {
    "prepare": PrepareCommand,
    "shortlist": ShortlistCommand,
    "train": TrainCommand,
    "evaluate": EvaluateCommand,
    "try": TryCommand,
    "shrink": ShrinkCommand,
    "import": ImportCommand,
    "attention": AttentionCommand,
}


def main(arguments: Sequence[str]) -> int:
    """Run a command.

    Args:
        arguments: Arguments from the command's name on.

    Returns:
        Exit status: 0, 1 when training diverged, 2 for wrong flags or input, 130 when interrupted.
    """
    name, *flags = arguments or ("",)
    if name not in COMMANDS:
        return fail("xuanzang", f"the first argument must be one of {', '.join(COMMANDS)}, got {name!r}")
    program = f"xuanzang {name}"
    try:
        read_flags(COMMANDS[name], flags, program=program).run()
    except (ValueError, OSError, PictureError) as error:
        return fail(program, str(error))
    except DivergedError as error:
        return fail(program, str(error), status=1)
    except KeyboardInterrupt:
        return fail(program, "interrupted", status=130)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
