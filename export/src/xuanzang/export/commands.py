"""The commands `xuanzang export` and `restore`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict

from xuanzang.command.parser import fail
from xuanzang.command.settings import Positional, read_flags
from xuanzang.export.certification.certificate import ParityError
from xuanzang.export.exporter import export
from xuanzang.export.restoring import restore
from xuanzang.export.settings import ExportSettings
from xuanzang.model.data.corpus import CorpusError
from xuanzang.model.stored_checkpoint import CheckpointError


class _ExportCommand(ExportSettings):
    """Turn a checkpoint into a bundle that the server loads.

    Builds the graphs of encoder and decoder step, compares them with numpy step by step and on held-out sentences, and
    writes the bundle only if they agree.
    """

    def run(self) -> None:
        print(export(self))


class _RestoreCommand(BaseModel):
    """Write a checkpoint with the weights of a bundle, good for `xuanzang train --init-from`."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    bundle: Annotated[Path, Positional()]
    """Folder of a bundle, such as server/models/zh-en/4."""
    checkpoint: Annotated[Path, Positional()]
    """Folder to write; must not exist yet."""

    def run(self) -> None:
        restore(self.bundle, self.checkpoint)
        print(self.checkpoint)


def run(program: str, name: str, flags: Sequence[str]) -> int:
    """Run a command.

    Args:
        program: Name of the command for its messages.
        name: "export" or "restore".

    Returns:
        Exit status: 0, 1 if the export is refused, 2 if the arguments are.
    """
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    command: type[_RestoreCommand | _ExportCommand] = _RestoreCommand if name == "restore" else _ExportCommand
    try:
        read_flags(command, flags, program=program).run()
    except (ParityError, CheckpointError, CorpusError, OSError) as error:
        return fail(program, str(error), status=1)
    return 0
