"""The program `xuanzang`."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import EntryPoint, PackageNotFoundError, distributions, version

from xuanzang.command.commands import KNOWN, SECTIONS, SHELLS, Main, distribution_of, installed, script
from xuanzang.command.parser import fail, output_closed

_PROGRAM = "xuanzang"
_HELP = ("--help", "-h", "help")
# Further facts on how a machine translates.
_LIBRARIES = ("grpcio", "protobuf", "onnxruntime", "torch")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name.

    Args:
        arguments: Arguments without the program's name; None: those of the process.

    Returns:
        The exit code: the command's; 2 if there is no such command; 141 if the reader of the output closed it.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = _status(given)
        sys.stdout.flush()
    except BrokenPipeError:
        return output_closed()
    return status


def _status(given: Sequence[str]) -> int:
    if not given or given[0] in _HELP:
        print(_help(installed()), file=sys.stdout if given else sys.stderr)
        return 0 if given else 2
    if given[0] == "--version":
        print(_versions())
        return 0
    if given[0] == "completion":
        return _complete(given[1:])
    return _run(given)


def _run(given: Sequence[str]) -> int:
    commands = installed()
    # A command of two words, such as "models available", comes before one of its first word.
    name = next((each for each in (" ".join(given[:2]), given[0]) if each in KNOWN or each in commands), None)
    if name is None or name not in commands:
        return fail(_PROGRAM, _missing(given, commands))
    if list(given[len(name.split()) :]) == ["--version"]:
        distribution = distribution_of(commands[name])
        print(f"{distribution} {version(distribution)}")
        return 0
    try:
        command: Main = commands[name].load()
    except ImportError as error:
        package = KNOWN[name].package if name in KNOWN else distribution_of(commands[name])
        return fail(f"{_PROGRAM} {name}", f"needs {package}: {error}")
    return command(given)


def _missing(given: Sequence[str], commands: Mapping[str, EntryPoint]) -> str:
    name = next((each for each in (" ".join(given[:2]), given[0]) if each in KNOWN), None)
    if name:
        return f"{name} is a command of the package {KNOWN[name].package}, which is not installed"
    names = {*KNOWN, *commands, "completion"}
    similar = get_close_matches(given[0], names, n=1)
    return f"no command {given[0]!r}{f'; did you mean {similar[0]}?' if similar else ''}; `{_PROGRAM} --help` lists all"


def _help(commands: Mapping[str, EntryPoint]) -> str:
    lines = [f"usage: {_PROGRAM} COMMAND [ARGUMENT ...]", ""]
    others = {name: entry.value for name, entry in commands.items() if name not in KNOWN}
    for heading, section in SECTIONS.items():
        summaries = {name: known.summary for name, known in section.items() if name in commands}
        lines += _section(heading, summaries)
    lines += _section("of other packages", others)
    shells = " or ".join(SHELLS)
    lines += _section("this program", {"completion": f"Print what completes commands and flags in {shells}"})
    absent: dict[str, list[str]] = {}
    for name, known in KNOWN.items():
        if name not in commands:
            absent.setdefault(known.package, []).append(name)
    lines += [f"not installed: {', '.join(names)} ({package})" for package, names in absent.items()]
    return "\n".join(
        [*lines, f"`{_PROGRAM} COMMAND --help` describes a command, `{_PROGRAM} --version` lists versions."]
    )


def _section(heading: str, commands: Mapping[str, str]) -> list[str]:
    width = max(map(len, KNOWN))
    return (
        [f"{heading}:", *(f"  {name:<{width}}  {summary}" for name, summary in commands.items()), ""]
        if commands
        else []
    )


def _versions() -> str:
    packages = sorted({dist.name for dist in distributions() if (dist.name or "").startswith("xuanzang")})
    lines = [f"{name} {version(name)}" for name in packages]
    for library in _LIBRARIES:
        try:
            lines.append(f"{library} {version(library)}")
        except PackageNotFoundError:
            continue
    return "\n".join([*lines, f"Python {platform.python_version()}"])


def _complete(arguments: Sequence[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in SHELLS:
        return fail(f"{_PROGRAM} completion", f"name the shell: {' or '.join(SHELLS)}")
    print(script(arguments[0]), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
