"""Measure starts of a server with one large model: its stages, the first translation, and the memory."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from benchmarks.harness.processes import ServerProcess, free_address
from xuanzang.client import TranslationClient
from xuanzang.translation.v1.translation_pb2 import DecodingOptions, TranslateTextRequest, TranslationSettings

SHORT_TOKENS = 10
"""About as many as a trained model gives for the sentence of the measurement."""
STAGES = ("settings", "listening", "serving")
LINES = [f"I have {number} cats." for number in ("two", "three", "four", "five", "six", "seven", "nine", "ten")]


def measure_starts(folder: Path) -> Iterator[str]:
    """Start a server with one worker, first with the bundle unknown, so that another process tries it, then known.

    The first translation goes on to the limit, as random weights never end one; a third start is measured with one of
    the length that trained models give such a sentence.

    Args:
        folder: Holds the folder `models`; the list of tried bundles is kept next to it.

    Yields:
        A row for each start with the seconds of its stages, and one for the memory after eight lines.
    """
    (folder / "tried").unlink(missing_ok=True)
    for state, tokens in (("unknown", None), ("known", None), ("known", SHORT_TOKENS)):
        started = datetime.now(UTC)
        with tempfile.TemporaryFile("w+") as log, _server(folder, tokens, log) as server:
            memory = server.resident_megabytes() / 1e3
            stages = "".join(f"{name} {seconds:.1f} s, " for name, seconds in _stages(log, started))
            first = f"{tokens or 'all'} tokens {server.start_seconds:.1f} s"
            yield f"| server, bundle {state} | {stages}{first} | {memory:.2f} GB |"
            with TranslationClient(server.address) as client:
                client.translate(LINES, source_language="en", target_language="zh", timeout=300)
            yield f"| after eight lines | {server.resident_megabytes() / 1e3:.2f} GB |"


def _server(folder: Path, tokens: int | None, log: IO[str]) -> ServerProcess:
    """Start a server with a limit on tokens of its first translation."""
    address = free_address()
    flags: dict[str, object] = {"models": folder / "models", "workers": 1, "address": address}
    flags |= {"metrics-address": "127.0.0.1:0", "tried-bundles": folder / "tried", "log-format": "json"}
    command = ["-m", "xuanzang.server", *(f"--{name}={value}" for name, value in flags.items())]
    request = TranslateTextRequest(
        contents=LINES[:1], settings=TranslationSettings(source_language_code="en", target_language_code="zh")
    )
    request.settings.options.MergeFrom(DecodingOptions(max_target_length=tokens))
    return ServerProcess(*command, address=address, request=request.SerializeToString(), errors=log)


def _stages(log: IO[str], started: datetime) -> Iterator[tuple[str, float]]:
    """Yield what a server has logged of its start, and the seconds since it was started."""
    log.seek(0)
    for line in log:
        entry = json.loads(line)
        if entry["event"] in STAGES:
            yield entry["event"], (datetime.fromisoformat(entry["timestamp"]) - started).total_seconds()
