"""Time our engine and CTranslate2 on the same weights and sentences; print a table and write bench.json."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from measurement import measure_interleaved, start_processes
from models import load_model, read_sentences, write_models
from report import Row, as_json, as_markdown
from tqdm import tqdm
from workload import FULL_BATCHES, QUICK_BATCHES, sentences_needed, workloads

from xuanzang.model.checkpoint import CheckpointError
from xuanzang.model.data.corpus import CorpusError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def main() -> None:
    """Measure every model that the command line names."""
    arguments = parser().parse_args()
    rows: list[Row] = []
    try:
        for name in arguments.model or ["small", "base"]:
            rows += measure_model(name, arguments)
    except (CheckpointError, CorpusError, OSError) as error:
        raise SystemExit(f"benchmark: {error}") from error
    arguments.output.write_text(json.dumps(as_json(rows), indent=2) + "\n", encoding="utf-8")
    print(as_markdown(rows))


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    result = argparse.ArgumentParser(description=__doc__)
    result.add_argument(
        "--model",
        action="append",
        help="folder of a checkpoint, or a preset, which gets random weights; may be repeated (small and base)",
    )
    result.add_argument(
        "--sentences",
        type=Path,
        default=HERE / "sentences.tsv",
        help="source<TAB>target lines, plain or .gz (those of this folder)",
    )
    result.add_argument(
        "--tokenizer",
        type=Path,
        default=ROOT / "server/models/zh-en/1/source.spm",
        help="SentencePiece model of presets (the bundled model's)",
    )
    result.add_argument("--output", type=Path, default=Path("bench.json"), help="file of the figures (bench.json)")
    result.add_argument("--rounds", type=int, help="measurements of each figure (5, with --quick 3)")
    result.add_argument("--quick", action="store_true", help="fewer sentences and rounds: some minutes")
    return result


def measure_model(name: str, arguments: argparse.Namespace) -> Iterator[Row]:
    """Measure one model in both precisions with every workload.

    Args:
        name: A preset or the folder of a checkpoint.
        arguments: Of the command line.

    Yields:
        One row for each precision, beam size and batch size.

    Raises:
        CheckpointError: The checkpoint cannot be loaded.
        CorpusError: The sentences cannot be read, or too few fit.
        OSError: The tokeniser cannot be loaded, or the process of an engine ended.
    """
    rounds = arguments.rounds or (3 if arguments.quick else 5)
    model = load_model(name, arguments.tokenizer)
    batches = QUICK_BATCHES if arguments.quick else FULL_BATCHES
    pairs, sentences = read_sentences(model.checkpoint, arguments.sentences, needed=sentences_needed(batches))
    planned = list(
        workloads(
            sentences,
            batches,
            forced_target_length=model.forced_target_length,
            min_seconds=0.1 if arguments.quick else 0.3,
        )
    )
    with tempfile.TemporaryDirectory() as scratch:
        print(f"{model.name}: writing the models", file=sys.stderr)
        folders = write_models(model.checkpoint, pairs, Path(scratch))
        for precision in ("int8", "float32"):
            with ExitStack() as stack:
                processes = start_processes(stack, folders[precision], precision)
                for workload in tqdm(planned, desc=f"{model.name} {precision}", unit="row"):
                    results = measure_interleaved(processes, workload, rounds)
                    yield Row(
                        model=model.name,
                        forced_target_length=model.forced_target_length,
                        precision=precision,
                        workload=workload,
                        ours=results["xuanzang"],
                        ctranslate2=results["ctranslate2"],
                    )


if __name__ == "__main__":
    main()
