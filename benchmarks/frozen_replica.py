"""Freeze one of two servers under a client with short timeouts; print the rate of each second and the failed calls.

    python -m benchmarks.frozen_replica --callers 8 --seconds 10

Prints JSON. The exit status is 1 if a call failed, or if the rate of a second with the server frozen is below the
floor: a share of the rate before, measured in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from checked_calls import CheckedCalls, answers
from replicas import Replica

from benchmarks.harness.bundled_model import MODELS
from xuanzang.client import AsyncTranslationClient


async def measure(
    replicas: Sequence[Replica],
    *,
    callers: int,
    seconds: int,
    timeout: float,  # noqa: ASYNC109 - sent as a deadline
) -> dict[str, Any]:
    """Make calls before, while and after the first replica is frozen.

    Args:
        replicas: Two servers.
        seconds: Length of each of the three phases.
        timeout: Time limit of a call in seconds.

    Returns:
        Figures of the run.
    """
    over, addresses = asyncio.Event(), [each.address for each in replicas]
    async with AsyncTranslationClient(addresses) as client:
        expected = await answers(client)
    async with AsyncTranslationClient(addresses, timeout=timeout) as client:
        calls, begun = CheckedCalls(client, expected), perf_counter()
        loading = asyncio.create_task(calls.closed_loop(callers, over.is_set))
        for number in (None, signal.SIGSTOP, signal.SIGCONT):
            if number is not None:
                replicas[0].send(number)
            await asyncio.sleep(seconds)
        over.set()
        await loading
    return _figures(calls, begun, seconds)


def _figures(calls: CheckedCalls, begun: float, seconds: int) -> dict[str, Any]:
    counts = Counter(int(each.ended - begun) for each in calls.outcomes if not each.fault)
    rates = [counts[second] for second in range(3 * seconds)]
    calm = statistics.median(rates[:seconds])
    return {
        "calls": len(calls.outcomes),
        "failed": calls.faults,
        "slowest_call_seconds": round(max(each.ended - each.due for each in calls.outcomes), 2),
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
        figures = asyncio.run(
            measure(replicas, callers=arguments.callers, seconds=arguments.seconds, timeout=arguments.timeout)
        )
    finally:
        for replica in replicas:
            replica.end()
    print(json.dumps(figures, indent=2))
    return 1 if figures["failed"] or figures["lowest_share_while_frozen"] < arguments.floor else 0


if __name__ == "__main__":
    sys.exit(main())
