"""Completion of the command line in bash, and in zsh by its emulation of bash."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

_SCRIPT = """\
# In ~/.bashrc: source <(xuanzang --completion); in ~/.zshrc, before it: autoload bashcompinit && bashcompinit
_xuanzang() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} command= offered
    local each
    for each in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$command $each" in
{commands}
        esac
    done
    case "$command" in
{options}
    esac
    COMPREPLY=($(compgen -W "$offered" -- "$word"))
    if [[ ${{#COMPREPLY[@]}} == 0 && $word != -* ]]; then COMPREPLY=($(compgen -f -- "$word")); fi
}}
complete -o filenames -F _xuanzang xuanzang
"""


class PrintCompletion(argparse.Action):
    """Prints the script that completes a parser's commands and options, and exits."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        """Make an action without a value.

        Args:
            option_strings: Flags.
            dest: Name that argparse gives it.
            options: Other arguments of argparse's actions.
        """
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print and exit.

        Args:
            parser: Parser of the program.
        """
        sys.stdout.write(bash_script(parser))
        parser.exit()


def bash_script(parser: argparse.ArgumentParser) -> str:
    """Return the script for bash.

    Args:
        parser: Parser of the program, with its commands.
    """
    found = dict(_parsers("", parser))
    # A command is a word after the command that it belongs to.
    commands = [f'            "{path}") command="{path}" ;;' for path in found if path]
    options = [f'        "{path}") offered="{" ".join(_words(each))}" ;;' for path, each in found.items()]
    return _SCRIPT.format(commands="\n".join(commands), options="\n".join(options))


def _parsers(path: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield all parsers by their commands, such as " glossaries list"; the program's own is ""."""
    yield path, parser
    for name, each in _commands(parser).items():
        yield from _parsers(f"{path} {name}", each)


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to its commands
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            return dict(action.choices)
    return {}


def _words(parser: argparse.ArgumentParser) -> list[str]:
    flags = [flag for flag in parser._option_string_actions if flag.startswith("--")]  # noqa: SLF001 - as above
    return [*_commands(parser), *flags]
