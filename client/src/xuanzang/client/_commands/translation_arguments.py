"""Arguments of the command `xuanzang translate`, and the options that they describe."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from xuanzang.client._commands.connection_arguments import Commands
from xuanzang.client._commands.streams import add_input
from xuanzang.command.files import read_text
from xuanzang.values.options import TranslateOptions
from xuanzang.values.provenance import SamplingOptions


def _value(option: str, metavar: str, text: str, **others: Any) -> Mapping[str, Any]:
    return {"dest": option, "metavar": metavar, "help": text, **others}


def _switch(option: str, text: str) -> Mapping[str, Any]:
    """Return the settings of a flag without a value; without the flag the server decides."""
    return {"dest": option, "action": "store_true", "default": None, "help": text}


def _output(value: str) -> Path | None:
    return None if value == "-" else Path(value)


def _names(text: str) -> list[str]:
    return list(filter(None, text.split(",")))


_SEARCH: Mapping[str, Mapping[str, Any]] = {
    "--source": _value("source_language", "CODE", 'language to translate from, such as "zh"'),
    "--target": _value("target_language", "CODE", 'language to translate into, such as "en"'),
    "--model": _value("model", "NAME", "name of a model, as listed by `xuanzang models`"),
    "--beam-size": _value("beam_size", "N", "hypotheses kept at each step; 1 is greedy search", type=int),
    "--num-hypotheses": _value("num_hypotheses", "N", "hypotheses written per text", type=int),
    "--length-penalty": _value("length_penalty", "X", "exponent on the length that divides scores", type=float),
    "--min-target-length": _value("min_target_length", "N", "minimum number of tokens per sentence", type=int),
    "--max-target-length": _value("max_target_length", "N", "maximum number of tokens per sentence", type=int),
    "--coverage-penalty": _value("coverage_penalty", "X", "penalty on leaving out parts of the source", type=float),
    "--repetition-penalty": _value("repetition_penalty", "X", "above 1: penalty on repeated tokens", type=float),
    "--no-repeat-ngram-size": _value("no_repeat_ngram_size", "N", "let no sequence of N tokens occur twice", type=int),
    "--target-prefix": _value("target_prefix", "TEXT", "text that every hypothesis starts with"),
    "--suppressed-text": _value(
        "suppressed_texts", "TEXT", "text that no translation may contain; repeatable", action="append"
    ),
}
SEARCH = tuple(_SEARCH)
"""Flags of the languages, the model and the search."""
_TERMS: Mapping[str, Mapping[str, Any]] = {
    "--glossary": _value(
        "glossary", "FILE.tsv", "terms to keep: lines of a term, a tab and its translations", type=Path
    ),
    "--glossary-name": _value("glossary_name", "NAME", "glossary of the server, whose terms are kept as well"),
    "--protect": _value(
        "protected_patterns",
        "KINDS",
        "texts not to translate, such as url,email: url, email, code, placeholder, number, tag",
        type=_names,
    ),
    "--placeholders": _value(
        "placeholders",
        "FAMILIES",
        "placeholders to carry through the translation, such as printf,braces: printf, braces, icu, templates, tags, "
        "variables, addresses, files, identifiers, handles, code (default: those of a document's format)",
        type=_names,
    ),
}
TERMS = tuple(_TERMS)
"""Flags of terms and placeholders."""
_TEXTS: Mapping[str, Mapping[str, Any]] = {
    "--refuse-long-sentences": _switch(
        "refuse_long_sentences",
        "refuse sentences over the model's limit that have no comma or white space to cut them at",
    ),
    "--pass-through-unserved": _switch(
        "pass_through_unserved",
        "without --source: leave texts in languages that no model translates as they are, instead of refusing them",
    ),
    "--allow-pivot": {
        "action": argparse.BooleanOptionalAction,
        "help": "whether two models may translate a pair of languages that no model does (default: the server's)",
    },
}
TEXTS = tuple(_TEXTS)
"""Flags for texts over a limit, and for languages and pairs without a model."""
_SAMPLING: Mapping[str, Mapping[str, Any]] = {
    "--sample": {"action": "store_true", "help": "draw tokens at random; implied by the options below"},
    "--top-k": _value("top_k", "N", "draw among the N most likely tokens", type=int),
    "--top-p": _value("top_p", "X", "draw among the most likely tokens that together reach probability X", type=float),
    "--temperature": _value("temperature", "X", "below 1: more likely tokens; above 1: rarer tokens", type=float),
    "--seed": _value("seed", "N", "repeat the draws of an earlier call with the same seed", type=int),
}
_OUTPUT: Mapping[str, Mapping[str, Any]] = {
    "-o --output": _value(
        "output",
        "FILE",
        "file to write, replaced once the results are whole; - is standard output (default)",
        type=_output,
    ),
    "--scores": _switch("return_scores", "write the score in nats and a tab before each hypothesis"),
    "--json": {"action": "store_true", "help": "write one JSON object per text"},
    "--token-details": _switch("token_details", "with --json: write score and source span of every token"),
    "--provenance": _switch("return_provenance", "with --json: write how each translation was made"),
    "--quality": _switch("return_quality", "with --json: write how far to trust each hypothesis"),
    "--capsule": _value(
        "capsule",
        "FILE",
        "file to write the requests and their answers to, for `xuanzang replay`; it holds the texts",
        type=Path,
    ),
    "--progressive": {"action": "store_true", "help": "write each part of a translation as soon as it is final"},
}
_PARTS: Mapping[str, Mapping[str, Any]] = {
    "--alternatives": _switch("return_alternatives", "write hypotheses that differ right after the target prefix"),
    "--partial-on-deadline": _switch(
        "partial_on_deadline", "with --progressive: when time runs out, end with the best translation so far"
    ),
}
_FLAGS = {**_SEARCH, **_TERMS, **_TEXTS, **_SAMPLING, **_OUTPUT, **_PARTS}


def add_options(group: argparse._ArgumentGroup, flags: Iterable[str]) -> None:
    """Add flags of options."""
    for flag in flags:
        group.add_argument(*flag.split(), **_FLAGS[flag])


def given_options(arguments: argparse.Namespace) -> TranslateOptions:
    """Return the options among the arguments of a command, which have the options' names.

    Raises:
        OSError: The glossary cannot be read.
        ValueError: A line of it is no entry.
    """
    given = {name: value for name, value in vars(arguments).items() if name in TranslateOptions.__optional_keys__}
    if given.get("glossary"):
        given["glossary"] = read_glossary(given["glossary"])
    return cast("TranslateOptions", given)


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
    options = given_options(arguments)
    options["sampling"] = _sampling(arguments)
    if arguments.capsule:
        options["return_scores"] = options["return_provenance"] = True
    return options


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    progressive, as_json = arguments.progressive, arguments.json
    faults = {
        "--progressive writes nothing but text: leave out --json and --scores": progressive
        and (as_json or arguments.return_scores),
        "--partial-on-deadline needs --progressive: only there each text has a --timeout of its own": (
            arguments.partial_on_deadline and not progressive
        ),
        "--token-details needs --json": arguments.token_details and not as_json,
        "--token-details has no place with tags: leave it out, or --format": (
            arguments.token_details and arguments.content_format in ("html", "xml")
        ),
        "--provenance needs --json": arguments.return_provenance and not as_json,
        "--quality needs --json": arguments.return_quality and not as_json,
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
    for title, flags in (
        ("translation", (*SEARCH, *_PARTS, *TEXTS)),
        ("terms", TERMS),
        ("sampling", _SAMPLING),
        ("output", _OUTPUT),
    ):
        add_options(command.add_argument_group(title), flags)
    return command
