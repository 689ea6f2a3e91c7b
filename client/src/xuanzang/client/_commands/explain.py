"""The command `xuanzang explain`: its arguments, and what it does."""

from __future__ import annotations

import argparse
import json
import sys

from xuanzang.client._client import TranslationClient
from xuanzang.client._commands.arguments.search import add_search, search_options
from xuanzang.client._commands.drawing import lines
from xuanzang.client._values.explanations import AttentionKind

_KINDS = tuple(kind.name.lower() for kind in AttentionKind if kind.value)


def add_explain(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> argparse.ArgumentParser:
    """Add the parser of the command.

    Args:
        commands: Commands to which it is added.
        shared: Options of the server and the connection.

    Returns:
        The parser.
    """
    command = commands.add_parser(
        "explain",
        help="translate a sentence and say how",
        description="Translates one sentence and writes its tokens with the likeliest others, and what became of every "
        "candidate of the search; * marks the path of the translation.",
        parents=[shared],
    )
    command.add_argument("text", metavar="TEXT", help="a text of one sentence")
    translation = command.add_argument_group("translation")
    add_search(translation, without={"--num-hypotheses"})
    translation.add_argument(
        "--num-hypotheses", type=int, metavar="N", help="hypotheses returned; the first is explained"
    )
    _add_output(command.add_argument_group("output"))
    return command


def _add_output(output: argparse._ArgumentGroup) -> None:
    output.add_argument("--json", action="store_true", help="write a JSON object, with the attention")
    output.add_argument(
        "--attention", action="append", choices=_KINDS, metavar="KIND", help="cross, encoder or decoder; repeatable"
    )
    output.add_argument(
        "--layer", action="append", type=int, metavar="N", help="layer whose attention is written; repeatable"
    )
    output.add_argument("--heads", action="store_true", help="write the attention of each head, too")


def explain(client: TranslationClient, arguments: argparse.Namespace) -> int:
    """Run the command.

    Args:
        client: Client to ask.
        arguments: Parsed arguments.

    Returns:
        The exit code.

    Raises:
        TranslationError: The server refused the text, could not be reached, or failed.
        ValueError: An argument needs another.
    """
    if not arguments.json and (arguments.attention or arguments.layer or arguments.heads):
        raise ValueError("--attention, --layer and --heads need --json")
    explained = client.explain(
        arguments.text,
        attention_kinds=arguments.attention or (AttentionKind.CROSS,),
        attention_layers=arguments.layer or (),
        attention_heads=arguments.heads,
        **search_options(arguments),
    )
    written = [json.dumps(explained.as_dict(), ensure_ascii=False)] if arguments.json else lines(explained)
    with open(sys.stdout.fileno(), "w", encoding="utf-8", newline="\n", closefd=False) as output:
        output.writelines(f"{line}\n" for line in written)
    return 0
