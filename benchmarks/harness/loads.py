"""Loads on a server by `xuanzang loadtest`, in a separate process, and their figures."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Load on one server, each request one sentence."""

    address: str
    """Host and port of the server."""
    rate: float | None
    """Requests per second of an open loop with Poisson arrivals; None for a closed loop."""
    callers: int
    """Callers of a closed loop, who each send the next request when they have an answer."""
    seconds: float
    """Duration of sending; a closed loop continues until there are some answers for every caller."""
    warm_up_seconds: float
    """Part of the duration at the start that does not count."""
    seed: int
    """Seed of the arrivals and of the order of sentences."""
    names: int = 1
    """Names that the callers have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """Result of a load."""

    sentences_per_second: float
    """Answers per second."""
    p50_ms: float
    """Median latency, from the time a request is due to its answer."""
    p95_ms: float
    """95th percentile of the latency."""
    p99_ms: float
    """99th percentile of the latency."""
    requests: int
    """Number of answers that count."""
    errors: int
    """Number of requests that failed or had an empty translation."""


class Callers:
    """Callers with some sentences, over one connection. They share the cores with the server."""

    def __init__(self, texts: Sequence[str], scratch: Path) -> None:
        """Write the file of sentences.

        Args:
            texts: Sentences, each a request.
            scratch: Folder for files.
        """
        self._texts, self._figures = scratch / "texts.txt", scratch / "figures.json"
        self._texts.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")

    def call(self, load: Load) -> LoadResult:
        """Put a load on a server and return the result.

        Raises:
            ChildProcessError: The load was not carried out, or nothing was answered.
        """
        kind = ("--callers", load.callers) if load.rate is None else ("--rate", load.rate)
        flags = ("--seconds", load.seconds, "--warm-up", load.warm_up_seconds, "--seed", load.seed, "--connections", 1)
        where = ("--address", load.address, "--names", load.names)
        command = ("-m", "xuanzang.loadtest", self._texts, *where, *kind, *flags)
        self._figures.unlink(missing_ok=True)
        subprocess.run(
            [sys.executable, *map(str, command), "--json", str(self._figures)], stdout=subprocess.DEVNULL, check=False
        )
        if not self._figures.exists():
            raise ChildProcessError(f"the load of {dataclasses.asdict(load)} could not be put on the server")
        [figures] = json.loads(self._figures.read_text(encoding="utf-8"))
        return _result(figures)


def _result(figures: dict[str, Any]) -> LoadResult:
    latency, answered = figures["latency_ms"], figures["codes"].get("OK", 0)
    if not answered:
        raise ChildProcessError(f"no request was answered: {figures['codes']}")
    return LoadResult(
        sentences_per_second=figures["texts_per_second"],
        p50_ms=latency["p50"],
        p95_ms=latency["p95"],
        p99_ms=latency["p99"],
        requests=answered,
        errors=figures["requests"] - answered,
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that a share of the values do not exceed; 0 of no values."""
    return float(np.quantile(values, share, method="inverted_cdf")) if len(values) else 0.0
