"""Our engine and server against CTranslate2 on the same weights and sentences: `make bench`.

    python -m benchmarks.engines.bench --quick --parts engine,served,cost --model bundled

Prints tables and writes bench.json, bench.md and bench.svg. benchmarks/README.md describes the measurements.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tqdm import tqdm

from benchmarks.engines.cost import measure_peak_share, measure_server_cost
from benchmarks.engines.long_file import measure_file
from benchmarks.engines.measurement import measure_interleaved, start_processes
from benchmarks.engines.models import BenchmarkModel, WrittenModel, first_sentences, load_model, write_models
from benchmarks.engines.report import Report, Row, as_json, as_markdown, draw
from benchmarks.engines.served import FULL, QUICK, ComparedModel, Effort, measure_served
from benchmarks.engines.workload import FULL_BATCHES, QUICK_BATCHES, Workload, sentences_needed, workloads
from benchmarks.harness.bundled_model import SENTENCES, newest_bundle, single_sentences
from benchmarks.harness.processes import cpu_times, share_of_others
from xuanzang.export.certification.certificate import ParityError
from xuanzang.model.data.corpus import CorpusError
from xuanzang.model.stored_checkpoint import CheckpointError

PARTS = ("engine", "served", "cost")


def main() -> None:
    """Measure the models of the command line."""
    arguments = parser().parse_args()
    report = Report()
    before = cpu_times()
    names = arguments.model or ["bundled", "base"]
    try:
        for name in names:
            with tempfile.TemporaryDirectory() as scratch:
                measure_model(name, arguments, Path(scratch), report, serve=name == names[0])
    except (ChildProcessError, CheckpointError, CorpusError, ParityError, OSError) as error:
        raise SystemExit(f"benchmark: {error}") from error
    report.share_of_others = share_of_others(before, cpu_times())
    table = as_markdown(report)
    arguments.output.write_text(json.dumps(as_json(report), indent=2) + "\n", encoding="utf-8")
    arguments.output.with_suffix(".md").write_text(table + "\n", encoding="utf-8")
    draw(report, arguments.output.with_suffix(".svg"))
    print(table)


def parser() -> argparse.ArgumentParser:
    """Return the command line parser."""
    result = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument(
        "--model",
        action="append",
        help="'bundled', a preset, or a checkpoint's folder; repeatable, the first is served (default: bundled, base)",
    )
    result.add_argument(
        "--parts",
        type=_parts,
        default=PARTS,
        help=f"parts to measure, separated by commas, of {', '.join(PARTS)}; '' for none (default: all)",
    )
    result.add_argument(
        "--sentences",
        type=Path,
        default=SENTENCES,
        help="file of source<TAB>target lines, plain or .gz (default: sentences.tsv of this folder)",
    )
    result.add_argument(
        "--bundle",
        type=Path,
        default=newest_bundle(),
        help="bundle that 'bundled' stands for and that presets take their weights from (default: the default model)",
    )
    result.add_argument(
        "--file",
        type=Path,
        help="file of source<TAB>target lines, plain or .gz, of which our command and CTranslate2 in process translate "
        "the first 2,000 as a whole (default: none)",
    )
    result.add_argument("--server-flags", type=str.split, default=[], help="flags of our server (default: none)")
    result.add_argument(
        "--shortlist",
        type=Path,
        help="shortlist of the model's tokenisers, written by `xuanzang shortlist`: our engine decodes with it, "
        "CTranslate2 with or without it, whichever is faster (default: none)",
    )
    result.add_argument(
        "--output", type=Path, default=Path("bench.json"), help="file of the figures (default: bench.json)"
    )
    result.add_argument("--quick", action="store_true", help="measure fewer sentences and rounds, for some minutes")
    return result


def _parts(text: str) -> list[str]:
    parts = text.split(",") if text else []
    if unknown := set(parts) - set(PARTS):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))} is none of {', '.join(PARTS)}")
    return parts


def measure_model(name: str, arguments: argparse.Namespace, scratch: Path, report: Report, *, serve: bool) -> None:
    """Measure one model.

    Args:
        name: Name of the model, as for `load_model`.
        arguments: Arguments of the command line.
        scratch: Folder for temporary files.
        report: Report to add the results to.
        serve: Whether to measure the model behind gRPC.

    Raises:
        CheckpointError: The checkpoint cannot be loaded.
        ChildProcessError: The process of an engine or server ended.
        CorpusError: The sentences cannot be read, or too few fit.
        OSError: A file of the bundle is missing.
        ParityError: The results of a bundle differ from those of the checkpoint.
    """
    model = load_model(name, bundle=arguments.bundle, sentences=arguments.sentences, scratch=scratch)
    print(f"{model.name}: writing the models", file=sys.stderr)
    effort = QUICK if arguments.quick else FULL
    precisions = ("int8", "float32") if "engine" in arguments.parts and effort.float32_beams else ("int8",)
    written = write_models(model, precisions, arguments.sentences, scratch, arguments.shortlist)
    planned = _workloads(model, arguments)
    if "engine" in arguments.parts:
        report.engine += measure_engine(model, written, planned, effort, shortlist=arguments.shortlist is not None)
    served = _served_model(model, written)
    if "served" in arguments.parts and serve:
        report.served = measure_served(served, effort, scratch, arguments.server_flags)
    if arguments.file and serve:
        rounds = 2 if arguments.quick else effort.rounds
        report.file = measure_file(model, served, arguments.file, scratch, rounds, arguments.server_flags)
    if "cost" in arguments.parts:
        print(f"{model.name}: measuring its cost", file=sys.stderr)
        report.servers.append(measure_server_cost(served, effort, scratch, arguments.server_flags))
        report.peak_shares[model.name] = measure_peak_share(
            served.bundle, model.checkpoint.model.config, planned[-1], effort.engine_rounds
        )


def _served_model(model: BenchmarkModel, written: WrittenModel) -> ComparedModel:
    return ComparedModel(
        name=model.name,
        bundle=written.bundles["int8"],
        ctranslate2=written.ctranslate2,
        texts=single_sentences(pair.source for pair in model.pairs),
    )


def _workloads(model: BenchmarkModel, arguments: argparse.Namespace) -> list[Workload]:
    batches = QUICK_BATCHES if arguments.quick else FULL_BATCHES
    sentences = first_sentences(model, sentences_needed(batches))
    return list(workloads(sentences, batches, min_seconds=0.1 if arguments.quick else 0.3))


def measure_engine(
    model: BenchmarkModel, written: WrittenModel, planned: list[Workload], effort: Effort, *, shortlist: bool
) -> Iterator[Row]:
    """Measure the engines of one model in both precisions with every workload.

    Args:
        effort: Number of rounds, and beam sizes to measure in float32.
        shortlist: Whether the model has a shortlist to use.

    Yields:
        A row for each precision, beam size and batch size.
    """
    for precision, bundle in written.bundles.items():
        chosen = [w for w in planned if precision == "int8" or w.beam_size in effort.float32_beams]
        with ExitStack() as stack:
            folders = {"xuanzang": bundle, "ctranslate2": written.ctranslate2}
            processes = start_processes(stack, folders, precision, shortlist=shortlist)
            for workload in tqdm(chosen, desc=f"{model.name} {precision}", unit="row"):
                results = measure_interleaved(processes, workload, effort.engine_rounds)
                yield Row(
                    model=model.name,
                    precision=precision,
                    workload=workload,
                    ours=results["xuanzang"],
                    ctranslate2=results["ctranslate2"],
                )


if __name__ == "__main__":
    main()
