"""The command `xuanzang explain`: its arguments, and what it does."""

from __future__ import annotations

import argparse
import json
import sys

from xuanzang.client._client import TranslationClient
from xuanzang.client._commands.drawing import lines
from xuanzang.client._values.explanations import AttentionKind, ExplainOptions

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
    _add_search(command.add_argument_group("translation"))
    output = command.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="write a JSON object, with the attention")
    output.add_argument(
        "--attention", action="append", choices=_KINDS, metavar="KIND", help="cross, encoder or decoder; repeatable"
    )
    output.add_argument(
        "--layer", action="append", type=int, metavar="N", help="layer whose attention is written; repeatable"
    )
    output.add_argument("--heads", action="store_true", help="write the attention of each head, too")
    return command


def _add_search(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--source", metavar="CODE", help='language of the text, such as "zh"')
    group.add_argument("--target", metavar="CODE", help='language to translate into, such as "en"')
    group.add_argument("--model", metavar="NAME", help="name of a model, as listed by `xuanzang models`")
    group.add_argument("--beam-size", type=int, metavar="N", help="hypotheses kept at each step; 1 is greedy search")
    group.add_argument("--num-hypotheses", type=int, metavar="N", help="hypotheses returned; the first is explained")
    group.add_argument("--length-penalty", type=float, metavar="X", help="exponent on the length that divides scores")
    group.add_argument("--min-target-length", type=int, metavar="N", help="minimum number of tokens")
    group.add_argument("--max-target-length", type=int, metavar="N", help="maximum number of tokens")
    group.add_argument("--coverage-penalty", type=float, metavar="X", help="penalty on leaving out parts of the source")
    group.add_argument("--repetition-penalty", type=float, metavar="X", help="above 1: penalty on repeated tokens")
    group.add_argument("--no-repeat-ngram-size", type=int, metavar="N", help="let no sequence of N tokens occur twice")
    group.add_argument("--target-prefix", metavar="TEXT", help="text that every hypothesis starts with")
    group.add_argument(
        "--suppressed-text",
        dest="suppressed_texts",
        action="append",
        metavar="TEXT",
        help="text that no hypothesis may contain; repeatable",
    )


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
        **_options(arguments),
    )
    written = [json.dumps(explained.as_dict(), ensure_ascii=False)] if arguments.json else lines(explained)
    with open(sys.stdout.fileno(), "w", encoding="utf-8", newline="\n", closefd=False) as output:
        output.writelines(f"{line}\n" for line in written)
    return 0


def _options(arguments: argparse.Namespace) -> ExplainOptions:
    return {
        "source_language": arguments.source,
        "target_language": arguments.target,
        "model": arguments.model,
        "beam_size": arguments.beam_size,
        "num_hypotheses": arguments.num_hypotheses,
        "length_penalty": arguments.length_penalty,
        "min_target_length": arguments.min_target_length,
        "max_target_length": arguments.max_target_length,
        "coverage_penalty": arguments.coverage_penalty,
        "repetition_penalty": arguments.repetition_penalty,
        "no_repeat_ngram_size": arguments.no_repeat_ngram_size,
        "target_prefix": arguments.target_prefix,
        "suppressed_texts": arguments.suppressed_texts,
    }
