"""The commands `xuanzang models` and `xuanzang detect`: what a server offers, and which languages texts are in."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TextIO

from xuanzang.client._client import TranslationClient
from xuanzang.client._commands.connection_arguments import Commands
from xuanzang.client._commands.streams import add_input, opened_input, opened_output, read_lines, undecodable
from xuanzang.client._values.results import DetectedLanguage
from xuanzang.values.models import Model

_TEXTS_PER_CALL = 256
_LISTED_LANGUAGES = 8


def add_models(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add `xuanzang models`."""
    command = commands.add_parser("models", help="list the models that the server offers", parents=[shared])
    command.add_argument("--json", action="store_true", help="write one JSON object per model")
    command.set_defaults(command=_models)


def add_detect(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add `xuanzang detect`."""
    command = commands.add_parser(
        "detect",
        help="detect the language of texts",
        description="Writes the likeliest language of each TEXT or, if none is given, of each line of a file or of "
        "standard input, a tab, and its probability; `und` and 0 if nothing tells the language.",
        parents=[shared],
    )
    add_input(command, text_help="a text in any language", file_help="file with one text per line")
    command.add_argument("--json", action="store_true", help="write one JSON list of all likely languages per text")
    command.set_defaults(command=_detect)


def _models(client: TranslationClient, arguments: argparse.Namespace) -> int:
    models = client.list_models()
    with opened_output() as output:
        if arguments.json:
            output.writelines(json.dumps(asdict(model), ensure_ascii=False) + "\n" for model in models)
        else:
            output.writelines(f"{line}\n" for line in _table(models))
    return 0


def _table(models: Iterable[Model]) -> Iterator[str]:
    rows = [("MODEL", "VERSION", "FROM", "TO", "PRECISION", "DEFAULT", "WEIGHTS", "LICENCE", "MANIFEST")]
    for model in models:
        sources = _listed(model.source_languages)
        if model.pivoted_source_languages:
            sources += f" ({_listed(model.pivoted_source_languages)} through {model.pivot_language})"
        languages = sources, _listed(model.target_languages)
        default = "yes" if model.is_default else "no"
        weights = model.residency.replace("_", " ") or "-"
        facts = model.precision, default, weights, model.licence or "-", model.manifest_sha256[:12]
        rows.append((model.name, model.version, *languages, *facts))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _listed(languages: Sequence[str]) -> str:
    """Return codes of languages, or their number where there are many; `--json` has all."""
    return ",".join(languages) if len(languages) <= _LISTED_LANGUAGES else f"{len(languages)} languages"


def _detect(client: TranslationClient, arguments: argparse.Namespace) -> int:
    texts = iter(arguments.texts or list(_lines(arguments)))
    with opened_output() as output:
        while some := list(islice(texts, _TEXTS_PER_CALL)):
            _write(client.detect_languages(some), output, as_json=arguments.json)
    return 0


def _lines(arguments: argparse.Namespace) -> Iterator[str]:
    for number, line in enumerate(read_lines(opened_input(arguments)), start=1):
        if fault := undecodable(line, arguments.encoding):
            raise ValueError(f"line {number}: {fault}")
        yield line.rstrip("\r")


def _write(detected: Iterable[Sequence[DetectedLanguage]], output: TextIO, *, as_json: bool) -> None:
    for languages in detected:
        if as_json:
            output.write(json.dumps([asdict(language) for language in languages]) + "\n")
        else:
            best = languages[0] if languages else DetectedLanguage(code="und", confidence=0.0)
            output.write(f"{best.code}\t{best.confidence:.2f}\n")
