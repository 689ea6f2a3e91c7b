"""The command `xuanzang explain`: its arguments and function."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import cast
from unicodedata import east_asian_width

from xuanzang.client._client import TranslationClient
from xuanzang.client._commands.connection_arguments import Commands
from xuanzang.client._commands.translation_arguments import SEARCH, add_options, given_options
from xuanzang.client._values.explanations import (
    AttentionKind,
    CandidateFate,
    CandidateReason,
    Explanation,
    SearchStep,
)
from xuanzang.values.options import ExplainOptions

_TOKEN_HEAD = ("", "TOKEN", "LOG P", "ATTENDS TO", "INSTEAD")
_TREE_HEAD = ("", "FROM", "TOKEN", "SUM", "FATE")
_KINDS = tuple(kind.name.lower() for kind in AttentionKind if kind.value)


def add_explain(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add `xuanzang explain`."""
    command = commands.add_parser(
        "explain",
        help="translate a sentence and say how",
        description="Translates one sentence and writes its tokens with the likeliest others, and what became of every "
        "candidate of the search; * marks the path of the translation.",
        parents=[shared],
    )
    command.add_argument("text", metavar="TEXT", help="a text of one sentence")
    translation = command.add_argument_group("translation")
    add_options(translation, (flag for flag in SEARCH if flag != "--num-hypotheses"))
    translation.add_argument(
        "--num-hypotheses", type=int, metavar="N", help="hypotheses returned; the first is explained"
    )
    _add_output(command.add_argument_group("output"))
    command.set_defaults(command=_explain)


def _add_output(output: argparse._ArgumentGroup) -> None:
    output.add_argument("--json", action="store_true", help="write a JSON object, with the attention")
    output.add_argument(
        "--attention", action="append", choices=_KINDS, metavar="KIND", help="cross, encoder or decoder; repeatable"
    )
    output.add_argument(
        "--layer", action="append", type=int, metavar="N", help="layer whose attention is written; repeatable"
    )
    output.add_argument("--heads", action="store_true", help="write the attention of each head, too")


def _explain(client: TranslationClient, arguments: argparse.Namespace) -> int:
    if not arguments.json and (arguments.attention or arguments.layer or arguments.heads):
        raise ValueError("--attention, --layer and --heads need --json")
    explained = client.explain(
        arguments.text,
        attention_kinds=arguments.attention or (AttentionKind.CROSS,),
        attention_layers=arguments.layer or (),
        attention_heads=arguments.heads,
        **cast("ExplainOptions", given_options(arguments)),
    )
    written = [json.dumps(explained.as_dict(), ensure_ascii=False)] if arguments.json else lines(explained)
    with open(sys.stdout.fileno(), "w", encoding="utf-8", newline="\n", closefd=False) as output:
        output.writelines(f"{line}\n" for line in written)
    return 0


def lines(explanation: Explanation) -> Iterator[str]:
    """Yield the lines: the translation, its tokens with alternatives, and the steps of the search."""
    best = explanation.translation.hypotheses[0]
    yield best.text
    yield f"{explanation.translation.model}/{explanation.translation.model_version}, score {best.score or 0.0:.4f}"
    yield ""
    yield from _table([_TOKEN_HEAD, *_token_rows(explanation)])
    for number, step in enumerate(explanation.search_steps):
        yield ""
        yield f"step {number + 1}"
        chosen = explanation.target_tokens[number].candidate if number < len(explanation.target_tokens) else None
        yield from _table([_TREE_HEAD, *_tree_rows(step, chosen)])
        if step.omitted_candidates:
            yield f"and {step.omitted_candidates} more"
    if explanation.omitted_steps:
        yield ""
        yield f"and {explanation.omitted_steps} more steps"
    if explanation.searches > 1:
        yield ""
        yield "searched again, because the first translation repeated itself"


def _token_rows(explanation: Explanation) -> Iterator[tuple[str, ...]]:
    for number, token in enumerate(explanation.target_tokens, 1):
        others = (each for each in token.alternatives if each.id != token.id)
        instead = "forced" if token.forced else "  ".join(f"{each.piece} {each.score:.2f}" for each in others)
        source = explanation.source_tokens[token.source_token].piece
        yield str(number), token.piece, f"{token.score:.3f}", source, instead


def _tree_rows(step: SearchStep, chosen: int | None) -> Iterator[tuple[str, ...]]:
    for index, each in enumerate(step.candidates):
        fate = each.fate.name.lower()
        if each.reason is not CandidateReason.UNSPECIFIED:
            fate += f": {each.reason.name.lower().replace('_', ' ')}"
        if each.fate is CandidateFate.FINISHED and each.final_score is not None:
            fate += f", {each.final_score:.4f}" + (f", rank {each.rank}" if each.rank else "")
        mark = "*" if index == chosen else ""
        parent = "" if each.parent is None else str(each.parent)
        yield f"{index}{mark}", parent, each.piece, "" if each.score is None else f"{each.score:.3f}", fate


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _width(text: str) -> int:
    """Return the columns of a terminal that a text takes."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
