"""Arguments of what translations keep: terms and protected texts."""

from __future__ import annotations

import argparse
from pathlib import Path

from xuanzang.client._commands.arguments.glossary_file import read_glossary
from xuanzang.client._values.options import TranslateOptions


def add_terms(group: argparse._ArgumentGroup) -> None:
    """Add the arguments.

    Args:
        group: Group of a command that translates.
    """
    group.add_argument(
        "--glossary", type=Path, metavar="FILE.tsv", help="terms to keep: lines of a term, a tab and its translations"
    )
    group.add_argument("--glossary-name", metavar="NAME", help="glossary of the server, whose terms are kept as well")
    group.add_argument(
        "--protect",
        metavar="KINDS",
        help="texts not to translate, such as url,email: url, email, code, placeholder, number, tag",
    )


def term_options(arguments: argparse.Namespace) -> TranslateOptions:
    """Return the options that they stand for.

    Args:
        arguments: Arguments of the command.

    Raises:
        OSError: The glossary cannot be read.
        ValueError: A line of it is no entry.
    """
    return {
        "glossary": arguments.glossary and read_glossary(arguments.glossary),
        "glossary_name": arguments.glossary_name,
        "protected_patterns": arguments.protect and arguments.protect.split(","),
    }
