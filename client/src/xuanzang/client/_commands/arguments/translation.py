"""Arguments of the command `xuanzang translate`, and the options that they describe."""

from __future__ import annotations

import argparse
from pathlib import Path

from xuanzang.client._commands.arguments.connection import Commands
from xuanzang.client._commands.arguments.search import add_search, search_options
from xuanzang.client._commands.arguments.terms import add_terms, term_options
from xuanzang.client._commands.streams import add_input
from xuanzang.values.options import TranslateOptions
from xuanzang.values.provenance import SamplingOptions


def translate_options(arguments: argparse.Namespace) -> TranslateOptions:
    """Return the options of a translation.

    Raises:
        OSError: The glossary cannot be read.
        ValueError: Two arguments contradict each other, one needs another, or a line of the glossary is no entry.
    """
    _refuse_contradictions(arguments)
    return {
        **search_options(arguments),
        "return_scores": arguments.scores or bool(arguments.capsule) or None,
        "sampling": _sampling(arguments),
        "return_alternatives": arguments.alternatives or None,
        "token_details": arguments.token_details or None,
        "partial_on_deadline": arguments.partial_on_deadline or None,
        "refuse_long_sentences": arguments.refuse_long_sentences or None,
        "content_format": arguments.content_format,
        "return_provenance": arguments.provenance or bool(arguments.capsule) or None,
        "return_quality": arguments.quality or None,
        "pass_through_unserved": arguments.pass_through_unserved or None,
        **term_options(arguments),
    }


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    progressive, as_json = arguments.progressive, arguments.json
    faults = {
        "--progressive writes nothing but text: leave out --json and --scores": progressive
        and (as_json or arguments.scores),
        "--partial-on-deadline needs --progressive: only there each text has a --timeout of its own": (
            arguments.partial_on_deadline and not progressive
        ),
        "--token-details needs --json": arguments.token_details and not as_json,
        "--token-details has no place with tags: leave it out, or --format": (
            arguments.token_details and arguments.content_format in ("html", "xml")
        ),
        "--provenance needs --json": arguments.provenance and not as_json,
        "--quality needs --json": arguments.quality and not as_json,
        "--capsule keeps whole translations: leave out --progressive": arguments.capsule and progressive,
    }
    for message, is_fault in faults.items():
        if is_fault:
            raise ValueError(message)


def _sampling(arguments: argparse.Namespace) -> SamplingOptions | None:
    sampling = SamplingOptions(
        top_k=arguments.top_k, top_p=arguments.top_p, temperature=arguments.temperature, seed=arguments.seed
    )
    return sampling if arguments.sample or sampling != SamplingOptions() else None


def add_translate(commands: Commands, shared: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add `xuanzang translate`; the caller gives its function."""
    command = commands.add_parser(
        "translate",
        help="translate texts, a file or standard input",
        description="Translates each TEXT or, if none is given, each line of a file or of standard input. Results keep "
        "the order of the texts, one line per hypothesis, in UTF-8.",
        parents=[shared],
    )
    add_input(command, text_help="a text to translate", file_help="file whose lines to translate")
    command.add_argument(
        "--format",
        dest="content_format",
        choices=("text", "html", "xml"),
        help="how texts are written; a file or standard input with html or xml is one text",
    )
    _add_translation(command.add_argument_group("translation"))
    add_terms(command.add_argument_group("terms"))
    _add_sampling(command.add_argument_group("sampling"))
    _add_output(command.add_argument_group("output"))
    return command


def _add_translation(group: argparse._ArgumentGroup) -> None:
    add_search(group)
    group.add_argument(
        "--alternatives", action="store_true", help="write hypotheses that differ right after the target prefix"
    )
    group.add_argument(
        "--partial-on-deadline",
        action="store_true",
        help="with --progressive: when time runs out, end with the best translation so far",
    )
    group.add_argument(
        "--refuse-long-sentences",
        action="store_true",
        help="refuse sentences over the model's limit that have no comma or white space to cut them at",
    )
    group.add_argument(
        "--pass-through-unserved",
        action="store_true",
        help="without --source: write texts in languages that no model translates as they are, instead of an error",
    )


def _add_sampling(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--sample", action="store_true", help="draw tokens at random; implied by the options below")
    group.add_argument("--top-k", type=int, metavar="N", help="draw among the N most likely tokens")
    group.add_argument(
        "--top-p", type=float, metavar="X", help="draw among the most likely tokens that together reach probability X"
    )
    group.add_argument(
        "--temperature", type=float, metavar="X", help="below 1: more likely tokens; above 1: rarer tokens"
    )
    group.add_argument("--seed", type=int, metavar="N", help="repeat the draws of an earlier call with the same seed")


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="file to write instead of standard output; it is replaced once the results are whole",
    )
    group.add_argument("--scores", action="store_true", help="write the score in nats and a tab before each hypothesis")
    group.add_argument("--json", action="store_true", help="write one JSON object per text")
    group.add_argument(
        "--token-details", action="store_true", help="with --json: write score and source span of every token"
    )
    group.add_argument("--provenance", action="store_true", help="with --json: write how each translation was made")
    group.add_argument("--quality", action="store_true", help="with --json: write how far to trust each hypothesis")
    group.add_argument(
        "--capsule",
        type=Path,
        metavar="FILE",
        help="file to write the requests and their answers to, for `xuanzang replay`; it holds the texts",
    )
    group.add_argument(
        "--progressive", action="store_true", help="write each part of a translation as soon as it is final"
    )
