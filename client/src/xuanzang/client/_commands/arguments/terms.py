"""Arguments of what translations keep: terms, which a file may hold, protected texts and placeholders."""

from __future__ import annotations

import argparse
from pathlib import Path

from xuanzang.command.files import read_text
from xuanzang.values.options import TranslateOptions


def add_terms(group: argparse._ArgumentGroup) -> None:
    """Add the arguments."""
    group.add_argument(
        "--glossary", type=Path, metavar="FILE.tsv", help="terms to keep: lines of a term, a tab and its translations"
    )
    group.add_argument("--glossary-name", metavar="NAME", help="glossary of the server, whose terms are kept as well")
    group.add_argument(
        "--protect",
        metavar="KINDS",
        help="texts not to translate, such as url,email: url, email, code, placeholder, number, tag",
    )
    group.add_argument(
        "--placeholders",
        metavar="FAMILIES",
        help="placeholders to carry through the translation, such as printf,braces: printf, braces, icu, templates, "
        "tags, variables, addresses, files, identifiers, handles, code (default: those of a document's format)",
    )


def term_options(arguments: argparse.Namespace) -> TranslateOptions:
    """Return the options that they stand for.

    Raises:
        OSError: The glossary cannot be read.
        ValueError: A line of it is no entry.
    """
    return {
        "glossary": arguments.glossary and read_glossary(arguments.glossary),
        "glossary_name": arguments.glossary_name,
        "protected_patterns": arguments.protect and arguments.protect.split(","),
        "placeholders": None
        if arguments.placeholders is None
        else list(filter(None, arguments.placeholders.split(","))),
    }


def read_glossary(file: Path) -> dict[str, list[str]]:
    """Read a file of terms, as the server does.

    Args:
        file: Lines of a term, a tab, and its translations with tabs between them; empty lines, and lines that begin
            with "#", are left out.

    Returns:
        Translations by term.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not UTF-8, or a line has no translation.
    """
    entries: dict[str, list[str]] = {}
    for number, line in enumerate(read_text(file).splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        term, *translations = (part.strip() for part in line.split("\t"))
        if not term or not all(translations) or not translations:
            raise ValueError(f"{file}, line {number}: must be a term, a tab and a translation")
        entries[term] = translations
    return entries
