"""Arguments of the command `xuanzang translate`, and the options that they describe."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from xuanzang.client._commands.connection_arguments import Commands
from xuanzang.client._commands.streams import add_input
from xuanzang.client._values.explanations import ExplainOptions
from xuanzang.command.files import read_text
from xuanzang.values.options import TranslateOptions
from xuanzang.values.provenance import SamplingOptions

_FLAGS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "--source": {"metavar": "CODE", "help": 'language to translate from, such as "zh"'},
        "--target": {"metavar": "CODE", "help": 'language to translate into, such as "en"'},
        "--model": {"metavar": "NAME", "help": "name of a model, as listed by `xuanzang models`"},
        "--beam-size": {"type": int, "metavar": "N", "help": "hypotheses kept at each step; 1 is greedy search"},
        "--num-hypotheses": {"type": int, "metavar": "N", "help": "hypotheses written per text"},
        "--length-penalty": {"type": float, "metavar": "X", "help": "exponent on the length that divides scores"},
        "--min-target-length": {"type": int, "metavar": "N", "help": "minimum number of tokens per sentence"},
        "--max-target-length": {"type": int, "metavar": "N", "help": "maximum number of tokens per sentence"},
        "--coverage-penalty": {"type": float, "metavar": "X", "help": "penalty on leaving out parts of the source"},
        "--repetition-penalty": {"type": float, "metavar": "X", "help": "above 1: penalty on repeated tokens"},
        "--no-repeat-ngram-size": {"type": int, "metavar": "N", "help": "let no sequence of N tokens occur twice"},
        "--target-prefix": {"metavar": "TEXT", "help": "text that every hypothesis starts with"},
        "--suppressed-text": {
            "dest": "suppressed_texts",
            "action": "append",
            "metavar": "TEXT",
            "help": "text that no translation may contain; repeatable",
        },
    }
)


def add_search(group: argparse._ArgumentGroup, *, without: Collection[str] = ()) -> None:
    """Add the arguments."""
    for flag, settings in _FLAGS.items():
        if flag not in without:
            group.add_argument(flag, **settings)


def search_options(arguments: argparse.Namespace) -> ExplainOptions:
    """Return the options that the arguments describe, which every command takes that shows a search as a whole.

    Args:
        arguments: Parsed arguments of a command that has all of them.
    """
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
        "allow_pivot": arguments.allow_pivot,
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
    add_allow_pivot(group)


def add_allow_pivot(group: argparse._ArgumentGroup) -> None:
    """Add the flag that allows or forbids two models."""
    group.add_argument(
        "--allow-pivot",
        action=argparse.BooleanOptionalAction,
        help="whether two models may translate a pair of languages that no model does (default: the server's)",
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
