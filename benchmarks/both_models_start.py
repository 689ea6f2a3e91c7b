"""Cost of the second bundled model: start and memory of servers with one model and with both.

    python -m benchmarks.both_models_start --rounds 5

Servers start in turn, each with one worker, with its bundles known and its detector unpacked. Detection is off in two
of the four kinds, so that the third shows its addition; the last waits for it. Prints a table.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.bundled_model import MODELS
from benchmarks.harness.processes import ServerProcess, free_address
from xuanzang.translation.v1.translation_pb2 import TranslateTextRequest, TranslationSettings

NAMED = TranslateTextRequest(
    contents=["我有一只猫。"], settings=TranslationSettings(source_language_code="zh", target_language_code="en")
)
UNNAMED = TranslateTextRequest(contents=["I have a cat."], settings=TranslationSettings(target_language_code="zh"))
"""Only its words tell its language."""


class Kind(NamedTuple):
    """A server to start."""

    name: str
    models: tuple[str, ...]
    flags: tuple[str, ...]
    request: TranslateTextRequest = NAMED


KINDS = (
    Kind("zh-en", ("zh-en",), ("--no-detection",)),
    Kind("both", ("zh-en", "en-zh"), ("--no-detection",)),
    Kind("both, with detection", ("zh-en", "en-zh"), ()),
    Kind("both, a text without a language", ("zh-en", "en-zh"), (), UNNAMED),
)


class Start(NamedTuple):
    """Times and memory of one start."""

    seconds: float
    """From the start of the process to its first translation."""
    megabytes: float
    """Resident memory after it."""


def start(kind: Kind, folder: Path) -> Start:
    """Start a server, let it translate one sentence, and stop it."""
    models = folder / kind.name
    models.mkdir(exist_ok=True)
    for name in kind.models:
        if not (models / name).exists():
            (models / name).symlink_to(MODELS / name)
    address = free_address()
    flags = ("--address", address, "--metrics-address", "127.0.0.1:0", "--workers", "1", "--log-level", "error")
    places = ("--models", str(models), "--tried-bundles", str(folder / "tried"))
    command = ("-m", "xuanzang.server", *flags, *places, *kind.flags)
    with ServerProcess(*command, address=address, request=kind.request.SerializeToString()) as server:
        return Start(server.start_seconds, server.resident_megabytes())


def rows(rounds: int) -> Iterator[str]:
    """Yield a row for each kind of server, of medians over rounds of turns."""
    with tempfile.TemporaryDirectory() as name:
        found: dict[str, list[Start]] = {kind.name: [] for kind in KINDS}
        for kind in KINDS:
            start(kind, Path(name))
        for _ in range(rounds):
            for kind in KINDS:
                found[kind.name].append(start(kind, Path(name)))
    for kind_name, starts in found.items():
        seconds = statistics.median(each.seconds for each in starts)
        megabytes = statistics.median(each.megabytes for each in starts)
        yield f"| {kind_name} | {seconds:.2f} | {megabytes:.0f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="starts of each kind that are counted")
    print("| models | first translation after, s | resident, MB |\n|---|---|---|")
    for row in rows(parser.parse_args().rounds):
        print(row)


if __name__ == "__main__":
    main()
