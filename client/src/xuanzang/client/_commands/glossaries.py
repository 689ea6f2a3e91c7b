"""The command `xuanzang glossaries`: what the server holds, and its change."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

from xuanzang.client._client import TranslationClient
from xuanzang.client._commands.connection_arguments import Commands
from xuanzang.client._commands.translation_arguments import read_glossary
from xuanzang.client._values.results import StoredGlossary


def add_glossaries(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add `xuanzang glossaries`."""
    command = commands.add_parser(
        "glossaries",
        help="list, store and delete glossaries of the server",
        description="Lists the glossaries of the server, which --glossary-name of `xuanzang translate` takes. Entries, "
        "create and delete are for callers who may store glossaries (--glossary-writers of the server).",
    )
    actions = command.add_subparsers(required=True, metavar="ACTION", dest="action")
    listing = actions.add_parser("list", help="list them", parents=[shared])
    listing.add_argument("--json", action="store_true", help="write one JSON object per glossary")
    for action, what in (("entries", "write the entries of one, as a file of terms"), ("delete", "delete one")):
        actions.add_parser(action, help=what, parents=[shared]).add_argument("name", metavar="NAME", help="its name")
    create = actions.add_parser("create", help="store a file of terms", parents=[shared])
    create.add_argument("name", metavar="NAME", help="name to give it")
    create.add_argument("file", type=Path, metavar="FILE.tsv", help="lines of a term, a tab and its translations")
    create.add_argument("--from", dest="source", required=True, metavar="CODE", help="language of the terms")
    create.add_argument("--to", dest="target", required=True, metavar="CODE", help="language of the translations")
    create.add_argument("--glossary-version", default="", metavar="TEXT", help="version to write into it")
    create.add_argument("--display-name", default="", metavar="TEXT", help="name for people, in any characters")
    create.add_argument("--replace", action="store_true", help="take the place of another one of that name")
    command.set_defaults(command=_glossaries)


def _glossaries(client: TranslationClient, arguments: argparse.Namespace) -> int:
    for line in _ACTIONS[arguments.action](client, arguments):
        sys.stdout.write(f"{line}\n")
    return 0


def _list(client: TranslationClient, arguments: argparse.Namespace) -> list[str]:
    return [json.dumps(asdict(each)) if arguments.json else _row(each) for each in client.list_glossaries()]


def _entries(client: TranslationClient, arguments: argparse.Namespace) -> list[str]:
    entries = client.list_glossary_entries(arguments.name)
    return ["\t".join((term, *translations)) for term, translations in entries.items()]


def _create(client: TranslationClient, arguments: argparse.Namespace) -> list[str]:
    stored = client.create_glossary(
        arguments.name,
        read_glossary(arguments.file),
        source_language=arguments.source,
        target_language=arguments.target,
        version=arguments.glossary_version,
        display_name=arguments.display_name,
        replace=arguments.replace,
    )
    return [_row(stored)]


def _delete(client: TranslationClient, arguments: argparse.Namespace) -> list[str]:
    client.delete_glossary(arguments.name)
    return []


def _row(glossary: StoredGlossary) -> str:
    pair = f"{glossary.source_language}-{glossary.target_language}"
    entries = f"{glossary.entry_count} entries"
    return "\t".join((glossary.name, pair, entries, glossary.version, glossary.display_name)).rstrip()


_ACTIONS: Mapping[str, Callable[[TranslationClient, argparse.Namespace], list[str]]] = MappingProxyType(
    {"list": _list, "entries": _entries, "create": _create, "delete": _delete}
)
