"""The command line: `python -m xuanzang.export`."""

from __future__ import annotations

import logging
import sys
from argparse import ArgumentParser
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, CliApp, CliPositionalArg, CliSettingsSource, SettingsConfigDict

from xuanzang.export.certification.certificate import ParityError
from xuanzang.export.exporter import export
from xuanzang.export.restoring import restore
from xuanzang.export.settings import ExportSettings
from xuanzang.model.checkpoint import CheckpointError
from xuanzang.model.data.corpus import CorpusError
from xuanzang.model.flags import add_argument


class _Command(ExportSettings, BaseSettings):
    """Turn a checkpoint into a bundle that the server loads.

    Builds the graphs of encoder and decoder step, compares them with torch step by step and on held-out sentences, and
    writes the bundle only if they agree.
    """

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        cli_prog_name="xuanzang-export",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
        cli_enforce_required=True,
    )

    def cli_cmd(self) -> None:
        """Run the export."""
        print(export(self))


class _RestoreCommand(BaseSettings):
    """Write a checkpoint with the weights of a bundle, good for `xuanzang-model train --init-from`."""

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        use_attribute_docstrings=True,
        cli_prog_name="xuanzang-export restore",
        cli_enforce_required=True,
    )

    bundle: CliPositionalArg[Path]
    """Folder of a bundle, such as server/models/zh-en/2."""
    checkpoint: CliPositionalArg[Path]
    """Folder to write; must not exist yet."""

    def cli_cmd(self) -> None:
        """Run the command."""
        restore(self.bundle, self.checkpoint)
        print(self.checkpoint)


def main() -> None:
    """Run the command; exits 1 if the export is refused, 2 if the arguments are."""
    if sys.argv[1:] == ["--version"]:
        print(f"xuanzang-export {version('xuanzang-export')}")
        return
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    command, arguments = (_RestoreCommand, sys.argv[2:]) if sys.argv[1:2] == ["restore"] else (_Command, sys.argv[1:])
    source: CliSettingsSource[ArgumentParser] = CliSettingsSource(command, add_argument_method=add_argument)
    try:
        CliApp.run(command, cli_args=arguments, cli_settings_source=source)
    except ValidationError as error:
        faults = "; ".join(f"--{'.'.join(map(str, e['loc'])).replace('_', '-')}: {e['msg']}" for e in error.errors())
        sys.exit(f"xuanzang-export: {faults}")
    except (ParityError, CheckpointError, CorpusError, OSError) as error:
        print(f"xuanzang-export: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
