"""Freeze one of two servers under a client with short timeouts; print the rate of each second and the failed calls.

    python -m benchmarks.frozen_replica --callers 8 --seconds 10

Prints JSON. The exit status is 1 if a call failed, or if the rate of a second with the server frozen is below the
floor: a share of the rate before, measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replicas import Replica

from benchmarks.harness.bundled_model import MODELS
from xuanzang.client import TranslationClient, TranslationError

_TEXT = "今天天气很好，我们去公园吧。"


@dataclass
class Load:
    """Callers in threads, and what became of their calls."""

    client: TranslationClient
    begun: float = field(default_factory=time.monotonic)
    answered: list[float] = field(default_factory=list)
    """Time of each answer in seconds since the beginning."""
    slowest: float = 0.0
    errors: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def now(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self.begun

    def call(self) -> None:
        """Make one call after another."""
        while not self.stop.is_set():
            started = self.now()
            try:
                self.client.translate_one(_TEXT)
            except TranslationError as error:
                self.errors.append(f"{self.now():.1f} s: {type(error).__name__}: {error.message}")
            else:
                self.answered.append(self.now())
            self.slowest = max(self.slowest, self.now() - started)


def measure(replicas: Sequence[Replica], *, callers: int, seconds: int, timeout: float) -> dict[str, Any]:
    """Make calls before, while and after the first replica is frozen.

    Args:
        replicas: Two servers.
        callers: Concurrent callers.
        seconds: Length of each of the three phases.
        timeout: Time limit of a call in seconds.

    Returns:
        Figures of the run.
    """
    with TranslationClient([each.address for each in replicas], timeout=timeout) as client:
        for _ in range(50):
            client.translate_one(_TEXT)
        load = Load(client)
        threads = [threading.Thread(target=load.call) for _ in range(callers)]
        for thread in threads:
            thread.start()
        for number in (None, signal.SIGSTOP, signal.SIGCONT):
            if number is not None:
                replicas[0].send(number)
            load.stop.wait(seconds)
        load.stop.set()
        for thread in threads:
            thread.join()
    return _figures(load, seconds)


def _figures(load: Load, seconds: int) -> dict[str, Any]:
    counts = Counter(int(each) for each in load.answered)
    rates = [counts[second] for second in range(3 * seconds)]
    calm = statistics.median(rates[:seconds])
    return {
        "calls": len(load.answered),
        "failed": load.errors,
        "slowest_call_seconds": round(load.slowest, 2),
        "rates": {"before": rates[:seconds], "frozen": rates[seconds : 2 * seconds], "after": rates[2 * seconds :]},
        "median_rate_before": calm,
        "lowest_share_while_frozen": round(min(rates[seconds : 2 * seconds]) / calm, 2),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=MODELS, help="models directory (default: server/models)")
    parser.add_argument("--callers", type=int, default=8, help="concurrent callers (default: 8)")
    parser.add_argument("--seconds", type=int, default=10, help="length of each phase (default: 10)")
    parser.add_argument("--timeout", type=float, default=5.0, help="time limit of a call in seconds (default: 5)")
    parser.add_argument("--floor", type=float, default=0.4, help="lowest share of the rate (default: 0.4)")
    arguments = parser.parse_args(argv)
    replicas = [Replica(arguments.models) for _ in range(2)]
    try:
        for replica in replicas:
            replica.ready()
        figures = measure(replicas, callers=arguments.callers, seconds=arguments.seconds, timeout=arguments.timeout)
    finally:
        for replica in replicas:
            replica.end()
    print(json.dumps(figures, indent=2))
    return 1 if figures["failed"] or figures["lowest_share_while_frozen"] < arguments.floor else 0


if __name__ == "__main__":
    sys.exit(main())
