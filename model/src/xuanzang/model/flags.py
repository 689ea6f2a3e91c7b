"""What `--help` shows in the place of a flag's value."""

from __future__ import annotations

import re
from argparse import Action, ArgumentParser
from typing import Any

_BY_NAME = (("-language", "CODE"), ("-seconds", "SECONDS"), ("--model", "NAME"))
_BY_TYPE = {"int": "N", "float": "X", "str": "TEXT", "Path": "PATH"}
_TYPE = re.compile(r"(?:list|dict)\[(?:str,)?(\w+)\]|\{(\w+),null\}|(\w+)")


def add_argument(parser: ArgumentParser, *names: str, **options: Any) -> Action:
    """Add an argument whose value is shown as N, X or PATH, where pydantic-settings gives Python's types.

    Args:
        parser: Parser to add to.
        names: Names of the flag.
        options: Those of `argparse.ArgumentParser.add_argument`.
    """
    if names[0].startswith("-") and "metavar" in options:
        options["metavar"] = _shown(names[-1], options["metavar"])
    return parser.add_argument(*names, **options)


def _shown(flag: str, kind: str) -> str:
    match = _TYPE.fullmatch(kind)
    if match is None:  # choices
        return kind
    value = next(filter(None, match.groups()))
    word = next((word for ending, word in _BY_NAME if flag.endswith(ending)), _BY_TYPE.get(value, value.upper()))
    return f"NAME={word}" if kind.startswith("dict") else word
