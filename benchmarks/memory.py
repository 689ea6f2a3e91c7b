"""Memory of a saturated server, what a second one on the machine adds, and what the memory is mapped from.

    python -m benchmarks.memory --rounds 5

Servers have both bundled models, the detector of languages and two workers. Callers in a closed loop send Chinese and
English sentences without a language. A round starts one server, loads it, then starts and loads another.
Prints medians in MB: resident memory (RSS) before and after the load, and what the second server adds, by the system's
proportional shares (PSS of both less that of the first alone) and by private pages. The last table is of the first
server after its load.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.both_models_start import NAMED
from benchmarks.harness.bundled_model import MODELS, bundled_model
from benchmarks.harness.loads import Callers, Load
from benchmarks.harness.processes import ServerProcess, free_address

CALLERS = 128
_HEADER = re.compile(r"[0-9a-f]+-[0-9a-f]+ \S{4} \S+ \S+ \d+ *(.*)")
_SIZE = re.compile(r"(Rss|Pss|Private_Clean|Private_Dirty): +(\d+) kB")
_KINDS = {
    r".*\.so[.0-9]*|.*/python[.0-9]+": "libraries and interpreter",
    r".*/weights\.bin": "weights as the bundles have them",
    r".*/languages-.*": "model of the detector",
    r".*/weights-.*\.packed": "packed weights",
    r"\[heap\]": "main heap of the C library",
    r"": "other memory without a file",
}


class Memory(NamedTuple):
    """Memory of a process in MB."""

    resident: float
    proportional: float
    private: float


class Round(NamedTuple):
    """Figures of one round; sentences/s are those of the first server."""

    start_seconds: float
    idle: Memory
    loaded: Memory
    both: float
    """Proportional shares of both servers together."""
    second: Memory
    sentences_per_second: float
    parts: dict[str, Memory]


def parts(pid: int) -> dict[str, Memory]:
    """Return the memory of a process by mapping."""
    sizes, kind = Counter[tuple[str, str]](), ""
    for line in Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8", errors="replace").splitlines():
        if header := _HEADER.fullmatch(line):
            kind = next((name for pattern, name in _KINDS.items() if re.fullmatch(pattern, header[1])), "others")
        elif size := _SIZE.fullmatch(line):
            sizes[kind, size[1].partition("_")[0]] += int(size[2]) * 1024
    names = dict.fromkeys(kind for kind, _ in sizes)
    return {name: Memory(*(sizes[name, size] / 1e6 for size in ("Rss", "Pss", "Private"))) for name in names}


def memory(pid: int) -> Memory:
    """Return the memory of a process."""
    return Memory(*map(sum, zip(*parts(pid).values(), strict=True)))


def server(folder: Path) -> ServerProcess:
    """Return a server, to be entered."""
    address = free_address()
    flags = ("--metrics-address", "127.0.0.1:0", "--workers", "2", "--log-level", "error")
    places = ("--models", str(MODELS), "--tried-bundles", str(folder / "tried"))
    command = ("-m", "xuanzang.server", "--address", address, *flags, *places)
    return ServerProcess(*command, address=address, request=NAMED.SerializeToString())


def measure(folder: Path, callers: Callers, seconds: float) -> Round:
    """Measure a round."""
    with server(folder) as first:
        idle, rate = memory(first.pid), load(first, callers, seconds)
        loaded, by_part = memory(first.pid), parts(first.pid)
        with server(folder) as second:
            load(second, callers, seconds)
            both = memory(first.pid).proportional + memory(second.pid).proportional
            return Round(first.start_seconds, idle, loaded, both, memory(second.pid), rate, by_part)


def load(target: ServerProcess, callers: Callers, seconds: float) -> float:
    """Put the load on a server; return sentences per second."""
    asked = Load(
        address=target.address, rate=None, callers=CALLERS, seconds=seconds, warm_up_seconds=seconds / 4, seed=0
    )
    return callers.call(asked).sentences_per_second


def tables(rounds: int, seconds: float) -> Iterator[str]:
    """Yield lines of the tables, after a round that does not count."""
    texts = bundled_model().texts
    with tempfile.TemporaryDirectory() as name:
        callers = Callers(texts, Path(name))
        measure(Path(name), callers, 1.0)
        found = [measure(Path(name), callers, seconds) for _ in range(rounds)]
    figures = {
        "start to first translation, s": [each.start_seconds for each in found],
        "resident, idle": [each.idle.resident for each in found],
        "resident, loaded": [each.loaded.resident for each in found],
        "second server adds, proportional": [each.both - each.loaded.proportional for each in found],
        "second server adds, private": [each.second.private for each in found],
        "sentences/s": [each.sentences_per_second for each in found],
    }
    yield "| figure | median | rounds |\n|---|---|---|"
    for figure, values in figures.items():
        digits = 2 if figure.endswith(" s") else 0
        each_round = ", ".join(f"{value:.{digits}f}" for value in values)
        yield f"| {figure} | {statistics.median(values):.{digits}f} | {each_round} |"
    yield "\n| mapped from | resident | proportional | private |\n|---|---|---|---|"
    for kind, held in sorted(found[-1].parts.items(), key=lambda part: -part[1].resident):
        yield f"| {kind} | {' | '.join(f'{value:.1f}' for value in held)} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds that are counted")
    parser.add_argument("--seconds", type=float, default=4.0, help="duration of each load")
    parsed = parser.parse_args()
    for line in tables(parsed.rounds, parsed.seconds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
