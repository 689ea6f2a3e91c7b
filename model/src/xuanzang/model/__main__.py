"""The command `xuanzang-model`."""

from __future__ import annotations

import sys
from argparse import Action, ArgumentParser
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    CliApp,
    CliSettingsSource,
    CliSubCommand,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from xuanzang.model.commands import (
    AttentionCommand,
    EvaluateCommand,
    ImportCommand,
    ImportMarianCommand,
    PrepareCommand,
    ShortlistCommand,
    ShrinkCommand,
    TrainCommand,
    TranslateCommand,
)
from xuanzang.model.flags import add_argument
from xuanzang.model.inspection.attention_pictures import PictureError
from xuanzang.model.training.trainer import DivergedError

PROGRAM = "xuanzang-model"


class Commands(BaseSettings):
    """Prepare data, train a Transformer, measure it, use it and look into it."""

    model_config = SettingsConfigDict(
        use_attribute_docstrings=True,
        cli_prog_name=PROGRAM,
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
        cli_avoid_json=True,
        cli_enforce_required=True,
    )

    prepare: CliSubCommand[PrepareCommand]
    """Filter pairs, train the tokeniser, write what `train` reads."""
    shortlist: CliSubCommand[ShortlistCommand]
    """Learn which target pieces a source suggests."""
    train: CliSubCommand[TrainCommand]
    """Train a Transformer, or go on training it."""
    evaluate: CliSubCommand[EvaluateCommand]
    """Score translations of a TSV file."""
    translate: CliSubCommand[TranslateCommand]
    """Translate texts."""
    shrink: CliSubCommand[ShrinkCommand]
    """Write a checkpoint at half its size."""
    import_: CliSubCommand[ImportCommand] = Field(alias="import")
    """Make a checkpoint of a model of MarianMT, NLLB-200, M2M-100, SMaLL-100 or mBART."""
    import_marian: CliSubCommand[ImportMarianCommand]
    """The same, under its former name."""
    attention: CliSubCommand[AttentionCommand]
    """Show which tokens attend to which."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - pydantic's signature
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read flags only: an environment variable named TRAIN is not meant for us."""
        return (init_settings,)

    def cli_cmd(self) -> None:
        """Run the command that was chosen."""
        CliApp.run_subcommand(self)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: Flags, without the program's name; None takes those of the process.

    Returns:
        Exit status: 0, 1 when training diverged, 2 for wrong flags or input, 130 when interrupted.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        print(f"{PROGRAM} {version(PROGRAM)}")
        return 0
    try:
        source: CliSettingsSource[ArgumentParser] = CliSettingsSource(Commands, add_argument_method=_add_argument)
        CliApp.run(Commands, cli_args=given, cli_settings_source=source)
    except ValidationError as error:
        return _fail(2, *(_line(fault["loc"], fault["msg"], fault["input"]) for fault in error.errors()))
    except (ValueError, OSError, PictureError, SettingsError) as error:
        return _fail(2, str(error))
    except DivergedError as error:
        return _fail(1, str(error))
    except KeyboardInterrupt:
        return _fail(130, "interrupted")
    return 0


def _add_argument(parser: ArgumentParser, *names: str, **options: Any) -> Action:
    """Let list flags take several values, and shield texts from being read as lists themselves."""
    if options.get("action") == "append":
        options |= {"action": "extend", "nargs": "+"}
    elif options.get("nargs") in ("*", "+"):
        options["type"] = _quote
    return add_argument(parser, *names, **options)


def _quote(text: str) -> str:
    # Every byte and a mark before them: plain numbers, "null" and "" would not come through as texts either.
    return "=" + "".join(f"%{byte:02x}" for byte in text.encode(errors="surrogateescape"))


def _line(location: tuple[int | str, ...], message: str, value: object) -> str:
    name = ".".join(str(part).replace("_", "-") for part in location)
    if message.startswith("Value error, "):
        return f"{name}: {message.removeprefix('Value error, ')}"
    return f"{name}: {message}, got {value!r}"


def _fail(status: int, *lines: str) -> int:
    for line in lines:
        sys.stderr.write(f"{PROGRAM}: error: {line}\n")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
