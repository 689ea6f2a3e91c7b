"""The command `xuanzang keys`: adds, lists and revokes API keys."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from xuanzang.command.parser import CommandParser, fail
from xuanzang.server.access.errors import KeysFileError
from xuanzang.server.access.keys import ApiKey, Role, change_keys, new_key, read_keys

_PROGRAM = "xuanzang keys"
_VARIABLE = "XUANZANG_KEYS_FILE"

_HEADINGS = ("ID", "NAME", "CREATED", "STATE", "REQUESTS/MIN", "CHARACTERS/MIN", "SENTENCES", "MODELS", "ROLE")
_QUOTAS = ("requests_per_minute", "characters_per_minute", "concurrent_sentences")


def run_keys_command(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command; return 0, or 1 if the file or the key is not there or not valid."""
    parser = _parser(environment.get(_VARIABLE))
    parsed = parser.parse_args(arguments)
    if parsed.keys_file is None:
        parser.error(f"--keys-file FILE is needed, or {_VARIABLE}")
    try:
        parsed.run(parsed)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        return fail(_PROGRAM, f"{fault['loc'][0]}: {fault['msg']}", status=1)
    except (KeysFileError, LookupError) as error:
        return fail(_PROGRAM, str(error.args[0]) if isinstance(error, LookupError) else str(error), status=1)
    return 0


def _add(parsed: argparse.Namespace) -> None:
    quotas = {quota: getattr(parsed, quota) for quota in _QUOTAS}
    key, entry = new_key(parsed.name, models=parsed.models, role=parsed.role, **quotas)
    change_keys(parsed.keys_file, lambda old: [*old, entry])
    # The key alone on standard output, so that it can be piped to where its holder will find it.
    sys.stderr.write(f"key {entry.id} for {entry.name!r}; it is not shown again:\n")
    sys.stdout.write(f"{key}\n")


def _list(parsed: argparse.Namespace) -> None:
    keys = read_keys(parsed.keys_file)
    if parsed.json:
        hidden = {"salt", "hash"}
        sys.stdout.writelines(json.dumps(key.model_dump(mode="json", exclude=hidden)) + "\n" for key in keys)
        return
    rows = [_HEADINGS, *map(_row, keys)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sys.stdout.writelines("  ".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in rows)


def _row(key: ApiKey) -> tuple[str, ...]:
    quotas = ("any" if getattr(key, quota) is None else str(getattr(key, quota)) for quota in _QUOTAS)
    state = "revoked" if key.revoked else "valid"
    return (key.id, key.name, f"{key.created:%Y-%m-%d}", state, *quotas, ",".join(key.models or ["any"]), key.role)


def _revoke(parsed: argparse.Namespace) -> None:
    def revoked(keys: tuple[ApiKey, ...]) -> list[ApiKey]:
        if parsed.id not in {key.id for key in keys}:
            raise LookupError(f"{parsed.keys_file} has no key {parsed.id}")
        return [key.model_copy(update={"revoked": key.revoked or key.id == parsed.id}) for key in keys]

    read_keys(parsed.keys_file)  # It is not made here.
    change_keys(parsed.keys_file, revoked)
    sys.stderr.write(f"key {parsed.id} is revoked\n")


def _parser(default_file: str | None) -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--keys-file", type=Path, default=default_file and Path(default_file), metavar="FILE", help=f"or {_VARIABLE}"
    )
    parser: argparse.ArgumentParser = CommandParser(prog=_PROGRAM, description="Adds, lists and revokes API keys.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_arguments(commands.add_parser("add", parents=[shared], help="make a key and print it, once"))
    listing = commands.add_parser("list", parents=[shared], help="list the keys, without what proves them")
    listing.add_argument("--json", action="store_true", help="write one JSON object per key")
    listing.set_defaults(run=_list)
    revoke = commands.add_parser("revoke", parents=[shared], help="refuse a key; running servers notice in a second")
    revoke.add_argument("id", metavar="ID", help="id of the key, as `list` shows it")
    revoke.set_defaults(run=_revoke)
    return parser


def _add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="holder of the key, such as the name of a program")
    command.add_argument("--requests-per-minute", type=int, metavar="N", help="a text of a stream is a request")
    command.add_argument("--characters-per-minute", type=int, metavar="N", help="characters of source texts")
    command.add_argument("--concurrent-sentences", type=int, metavar="N", help="sentences in translation at a time")
    command.add_argument(
        "--model",
        dest="models",
        action="append",
        metavar="NAME[/VERSION]",
        help="allowed model; repeatable; none: all models",
    )
    command.add_argument(
        "--role",
        choices=get_args(Role),
        default="caller",
        help="caller (default): translates; admin: shows and changes the models at --admin-address, and nothing else",
    )
    command.set_defaults(run=_add)
