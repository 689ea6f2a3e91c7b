"""Cost of provenance or quality: CPU time of the server per call of one sentence, with it and without.

    PYTHONPATH=tests/benchmark python tests/benchmark/provenance.py --rounds 10 --before ../main
    PYTHONPATH=tests/benchmark python tests/benchmark/provenance.py --asked return_quality --beam-size 4

Calls of each kind are made one after another, the kinds in turn, in another order each round. Each figure is the median
of the rounds' ratios to the server that is not asked. `--before` adds a server of another checkout, whose ratio shows
what the code costs those who do not ask.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

from processes import ServerProcess
from served import HERE, ServedModel, our_server, single_sentences

from xuanzang.client import TranslateOptions, TranslationClient

ROOT = HERE.parents[1]
ROOMS = ("proto", "kernels", "model", "export", "server", "client")


@contextmanager
def started(checkout: Path, model: ServedModel) -> Iterator[tuple[ServerProcess, TranslationClient]]:
    """Run the server of a checkout, and a client of it."""
    path = os.pathsep.join(str(checkout.resolve() / room / "src") for room in ROOMS)
    with mock.patch.dict(os.environ, {"PYTHONPATH": path}):
        server = our_server(model)
    with server, TranslationClient(server.address) as client:
        yield server, client


def cpu_milliseconds(server: ServerProcess) -> float:
    """Return the CPU time that a process has used so far."""
    fields = Path(f"/proc/{server.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(server: ServerProcess, client: TranslationClient, texts: Sequence[str], options: TranslateOptions) -> float:
    """Return the CPU time of the server per call, in milliseconds."""
    before = cpu_milliseconds(server)
    for text in texts:
        client.translate([text], **options)
    return (cpu_milliseconds(server) - before) / len(texts)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="rounds of 256 calls of each kind")
    parser.add_argument("--before", type=Path, help="root of another checkout, with its kernels built")
    parser.add_argument("--asked", choices=["return_provenance", "return_quality"], default="return_provenance")
    parser.add_argument("--beam-size", type=int, default=1)
    print_table(measure_in_turn(parser.parse_args()))


def measure_in_turn(arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Return the CPU time of a call in each round, in milliseconds, by kind of call; the first round warms up."""
    plain: TranslateOptions = {"beam_size": arguments.beam_size}
    asking: TranslateOptions = {
        "beam_size": arguments.beam_size,
        "return_provenance": arguments.asked == "return_provenance" or None,
        "return_quality": arguments.asked == "return_quality" or None,
    }
    model = bundled_model()
    with ExitStack() as stack:
        ours = stack.enter_context(started(ROOT, model))
        kinds = {"not asked": (*ours, plain), "asked": (*ours, asking)}
        if arguments.before:
            kinds["before"] = (*stack.enter_context(started(arguments.before, model)), plain)
        found: dict[str, list[float]] = {name: [] for name in kinds}
        for number in range(arguments.rounds + 1):
            names = list(kinds)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                server, client, options = kinds[name]
                found[name].append(measure(server, client, model.texts, options))
    return found


def bundled_model() -> ServedModel:
    """Return the bundled model with the sentences of this folder."""
    lines = (HERE / "sentences.tsv").read_text(encoding="utf-8").splitlines()
    texts = single_sentences(line.split("\t")[0] for line in lines)
    bundle = max((ROOT / "server/models/zh-en").iterdir(), key=lambda folder: int(folder.name))
    return ServedModel(name="zh-en", bundle=bundle, ctranslate2=bundle, texts=texts)


def print_table(found: dict[str, list[float]]) -> None:
    """Print medians, and medians of the ratios to calls that do not ask."""
    base = found["not asked"][1:]
    print(f"{'':12}{'CPU ms per call':>16}{'ratio':>8}")
    for name, (_, *figures) in found.items():
        ratio = statistics.median(each / one for each, one in zip(figures, base, strict=True))
        print(f"{name:12}{statistics.median(figures):16.3f}{ratio:8.3f}")


if __name__ == "__main__":
    main()
