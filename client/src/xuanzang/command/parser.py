"""The parser of every command: one style of flags, of help and of faults."""

from __future__ import annotations

import os
import sys
import textwrap
from argparse import Action, ArgumentParser, HelpFormatter
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class CommandParser(ArgumentParser):
    """An argparse parser whose flags are written out, and whose help starts with a capital and ends without a stop."""

    def __init__(self, **options: Any) -> None:
        """Make a parser."""
        super().__init__(**{"formatter_class": _HelpFormatter, "allow_abbrev": False, **options})

    def parse_known_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse arguments, and refuse unknown ones here, where the flags of the command are known.

        The parser of the program would show its own usage.
        """
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            flags = [each.partition("=")[0] for each in unknown if each.startswith("--")]
            similar = [near for each in flags for near in get_close_matches(each, self._option_string_actions, n=1)]
            hint = f"; did you mean {', '.join(similar)}?" if similar else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found, unknown


class _HelpFormatter(HelpFormatter):
    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wrap paragraphs, but not lists, whose lines are indented."""
        paragraphs = textwrap.dedent(text).strip("\n").split("\n\n")
        is_list = [any(line.startswith(" ") for line in each.splitlines()) for each in paragraphs]
        wrapped = (textwrap.fill(" ".join(each.split()), width) for each in paragraphs)
        chosen = (each if raw else fill for each, raw, fill in zip(paragraphs, is_list, wrapped, strict=True))
        return textwrap.indent("\n\n".join(chosen), indent)

    def _get_help_string(self, action: Action) -> str | None:
        text = action.help
        return text and (text[0].upper() + text[1:]).removesuffix(".")


def fail(program: str, *faults: str, status: int = 2) -> int:
    """Write faults to standard error, one a line, and return the exit status.

    Args:
        program: Program and command, such as "xuanzang serve".
    """
    for fault in faults:
        sys.stderr.write(f"{program}: error: {fault}\n")
    return status


def output_closed() -> int:
    """Return the exit status of a command whose reader has closed its output, such as `head`."""
    # Python flushes stdout once more at exit; the flush must find an open file.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def say(line: str) -> None:
    """Write a line on the progress to standard error."""
    sys.stderr.write(f"xuanzang: {line}\n")
    sys.stderr.flush()
