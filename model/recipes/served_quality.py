"""Translate test sets through a running server and print the tables of a model card.

Everything but the address and the files is the server's default, so the measured answers are those that users get.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tqdm import tqdm

from xuanzang.client import InvalidRequestError, Model, TranslationClient, TranslationError
from xuanzang.model.data.corpus import CorpusError
from xuanzang.model.evaluation.comet import Comet, CometError
from xuanzang.model.evaluation.quality import Evaluation, Quality, measure
from xuanzang.model.evaluation.test_sets import HeldOutPair, read_test_set

TIMEOUT = 600.0
"""Seconds that a translation may take while the server has other work."""
LISTING_TIMEOUT = 10.0
"""Seconds that the server may take to list its models."""
HEAD = """\
| | sentences | BLEU | chrF2 | length | loops | empty | spans kept |
|---|---|---|---|---|---|---|---|"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print.

    Args:
        arguments: Flags, without the program's name; None takes those of the process.

    Returns:
        Exit status: 0, 1 if the server failed, 2 for wrong flags or files.
    """
    flags = _parser().parse_args(arguments)
    try:
        sets = {name: read_test_set(Path(path), groups=flags.groups) for name, path in flags.sets}
        comet = Comet(flags.comet) if flags.comet else None
        with TranslationClient(flags.address, timeout=TIMEOUT) as client:
            model = find_model(client, flags.model)
            evaluations = {name: evaluate(client, model, name, pairs, comet) for name, pairs in sets.items()}
    except TranslationError as error:
        sys.stderr.write(f"{flags.address}: {error}\n")
        return 1
    except (CorpusError, CometError, LookupError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    print(as_markdown(model, evaluations))
    if flags.json:
        figures = {name: evaluation.as_json() for name, evaluation in evaluations.items()}
        flags.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("address", help="host:port of the server")
    parser.add_argument("sets", nargs="+", type=_named_file, metavar="NAME=FILE", help="source<TAB>target lines")
    parser.add_argument("--model", help="name of the model, if the server has several")
    parser.add_argument("--groups", type=Path, help="TOML file that gathers the groups of the third column")
    parser.add_argument("--comet", type=Path, help="COMET checkpoint, model.ckpt, to score with as well")
    parser.add_argument("--json", type=Path, help="file to write the figures to as well")
    return parser


def _named_file(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"expected NAME=FILE, not {text!r}")
    return name, path


def find_model(client: TranslationClient, name: str | None) -> Model:
    """Return what the server says of a model, or of its only one.

    Raises:
        LookupError: There is none of that name, or there are several and no name was given.
        TranslationError: The server cannot be reached.
    """
    models = {model.name: model for model in client.list_models(timeout=LISTING_TIMEOUT) if model.is_default}
    if name is None and len(models) == 1:
        return next(iter(models.values()))
    if name not in models:
        raise LookupError(f"--model must be one of {', '.join(models)}" + (f", not {name}" if name else ""))
    return models[name]


def evaluate(
    client: TranslationClient, model: Model, name: str, pairs: Sequence[HeldOutPair], comet: Comet | None = None
) -> Evaluation:
    """Translate a test set and measure it.

    Raises:
        TranslationError: The server failed.
        CometError: COMET failed.
    """
    translations = translated(client, model, name, [pair.source for pair in pairs])
    # NFKC is the default of `prepare`; the server does not report its normalisation.
    return measure(pairs, translations, model.target_languages[0], "nfkc", comet)


def translated(client: TranslationClient, model: Model, name: str, sources: Sequence[str]) -> list[str]:
    """Translate the sources of a test set.

    The translation of a sentence that the server refuses is empty, and its error goes to standard error.

    Args:
        name: Name of the test set, for people.

    Raises:
        TranslationError: The server failed.
    """
    stream = client.translate_stream(sources, ordered=True, model=model.name)
    translations = []
    for result in tqdm(stream, desc=name, total=len(sources), unit="sentence", file=sys.stderr, leave=False):
        if refused := isinstance(result.error, InvalidRequestError):
            sys.stderr.write(f"{name}, line {result.index + 1}: {result.error}\n")
        translations.append("" if refused else result.translation.text)
    return translations


def as_markdown(model: Model, evaluations: Mapping[str, Evaluation]) -> str:
    """Return a table of the test sets, one of the groups of each that has some, and how all was measured."""
    parts = [_table({name: evaluation.whole for name, evaluation in evaluations.items()})]
    parts += [f"{name}: {evaluation.comet}" for name, evaluation in evaluations.items() if evaluation.comet]
    parts += [f"Of {name}:\n\n{_table(e.groups)}" for name, e in evaluations.items() if e.groups]
    defaults, scores = model.defaults, next(iter(evaluations.values())).whole.scores
    parts.append(
        f"{model.name}, version {model.version}, {model.precision}, beam {defaults.beam_size}, length penalty "
        f"{defaults.length_penalty:g}, through the server. Length: characters per character of the references. "
        f"Signatures: {scores.bleu_signature}; {scores.chrf_signature}"
    )
    return "\n\n".join(parts)


def _table(rows: Mapping[str, Quality]) -> str:
    lines = [HEAD, *(f"| {name or 'others'} | {_cells(quality)} |" for name, quality in rows.items())]
    lines += [f"\n{name}: {quality.key_words}" for name, quality in rows.items() if quality.key_words.wanted]
    return "\n".join(lines)


def _cells(quality: Quality) -> str:
    (bleu, chrf, *_), faults = quality.scores, quality.faults
    kept = f"{faults.kept / faults.spans:.1%} of {faults.spans}" if faults.spans else "none to keep"
    figures = (f"{quality.sentences:,}", f"{bleu:.1f}", f"{chrf:.1f}", f"{faults.length_ratio:.2f}")
    return " | ".join((*figures, str(faults.loops), str(faults.empty), kept))


if __name__ == "__main__":
    sys.exit(main())
