"""Parser of the command line: all commands, and what those take that no other module is about."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from xuanzang.client._client import TranslationClient
from xuanzang.client._commands.arguments.connection import server_options
from xuanzang.client._commands.arguments.documents import add_documents
from xuanzang.client._commands.arguments.translation import add_translate
from xuanzang.client._commands.explain import add_explain
from xuanzang.client._commands.glossaries import add_glossaries
from xuanzang.command.parser import CommandParser

Command = Callable[[TranslationClient, argparse.Namespace], int]
"""Function that runs a command and returns the exit code."""

_EXIT_CODES = """\
exit codes:
  0    all texts were translated, or all answers of a capsule are identical
  1    an answer of a capsule differs, some texts were refused, or the request, or the server failed; results of the
       other texts were written
  2    wrong arguments, or a file that cannot be read or written
  3    no server could be reached, or it was overloaded or too slow: try again later
  130  interrupted with Ctrl-C
  141  the reader of the output closed it
"""


def parser(
    environment: Mapping[str, str],
    *,
    translate: Command,
    documents: Command,
    models: Command,
    detect: Command,
    explain: Command,
    replay: Command,
    glossaries: Command,
) -> argparse.ArgumentParser:
    """Build the parser.

    Args:
        environment: Environment variables; XUANZANG_ADDRESS is the default address.
        translate: Implementation of `xuanzang translate`.
        documents: Implementation of `xuanzang documents`.
        models: Implementation of `xuanzang models`.
        detect: Implementation of `xuanzang detect`.
        explain: Implementation of `xuanzang explain`.
        replay: Implementation of `xuanzang replay`.
        glossaries: Implementation of `xuanzang glossaries`.

    Returns:
        Parser that stores the implementation of the chosen command in `command`.
    """
    top: argparse.ArgumentParser = CommandParser(
        prog="xuanzang",
        description="Translates text through a xuanzang server.",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    shared = server_options(environment.get("XUANZANG_ADDRESS", "localhost:50051"))
    add_translate(commands, shared).set_defaults(command=translate)
    add_documents(commands, shared).set_defaults(command=documents)
    _add_models(commands, shared).set_defaults(command=models)
    _add_detect(commands, shared).set_defaults(command=detect)
    add_explain(commands, shared).set_defaults(command=explain)
    add_glossaries(commands, shared).set_defaults(command=glossaries)
    _add_replay(commands, shared).set_defaults(command=replay)
    for command in commands.choices.values():
        command.epilog = _EXIT_CODES
    return top


def _add_models(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> argparse.ArgumentParser:
    command = commands.add_parser("models", help="list the models that the server offers", parents=[shared])
    command.add_argument("--json", action="store_true", help="write one JSON object per model")
    return command


def _add_replay(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        "replay",
        help="send the requests of a capsule again and compare the answers",
        description="Sends the requests of a file that `xuanzang translate --capsule` has written, and says whether "
        "the answers are identical, byte for byte, or else where they differ and what was made differently.",
        parents=[shared],
    )
    command.add_argument("capsule", type=Path, metavar="CAPSULE", help="file to replay")
    return command


def _add_detect(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        "detect",
        help="detect the language of texts",
        description="Writes the likeliest language of each TEXT or, if none is given, of each line of a file or of "
        "standard input, a tab, and its probability; `und` and 0 if nothing tells the language.",
        parents=[shared],
    )
    source = command.add_mutually_exclusive_group()
    source.add_argument("texts", nargs="*", default=[], metavar="TEXT", help="a text in any language")
    source.add_argument("-f", "--file", metavar="FILE", help="file with one text per line; - is standard input")
    command.add_argument("--json", action="store_true", help="write one JSON list of all likely languages per text")
    return command
