"""End servers one after the other under full load, as Kubernetes ends pods, and count the calls that are lost.

    PYTHONPATH=tests/support python tests/benchmark/drains.py --drains 20
    PYTHONPATH=tests/support python tests/benchmark/drains.py --drains 20 --through envoy

Two servers answer callers each of which calls again as soon as it has its answer. In turn each is told to end: for the
seconds of `preStop` it serves on, then it gets SIGTERM, refuses new calls, finishes the accepted ones and exits, and
its successor starts. The exit status is 1 if a call failed or had another answer than a lone server gives, or if a
server did not exit with status 0.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from checked_calls import CheckedCalls, answers, stream_faults
from failover import MODELS, addresses
from load import percentile
from replica_set import ReplicaSet, replica_set

from xuanzang.client import AsyncTranslationClient

CALLERS = 32


async def drain_in_turn(servers: ReplicaSet, addresses: Sequence[str], *, drains: int, wait: float) -> dict[str, Any]:
    """Let servers under full load be ended and replaced in turn.

    Args:
        servers: Two servers.
        addresses: Addresses for the client.
        drains: Number of servers to end.
        wait: Seconds of the `preStop` hook.

    Returns:
        Calls, what failed, exit statuses, and latencies in milliseconds.
    """
    over = asyncio.Event()
    statuses = []
    async with AsyncTranslationClient(addresses) as client:
        expected = await answers(client)
        calls = CheckedCalls(client, expected)
        loading = asyncio.create_task(calls.closed_loop(CALLERS, over.is_set))
        faults = []
        for number in range(drains):
            streaming = asyncio.create_task(stream_faults(client, expected, 100))
            statuses.append(await servers.drain(number % 2, wait))
            await servers.replace(number % 2)
            faults += await streaming
        over.set()
        await loading
    latencies = sorted(1000 * (each.ended - each.due) for each in calls.outcomes)
    quantiles = {f"p{int(100 * share)}": round(percentile(latencies, share)) for share in (0.5, 0.99, 1)}
    return {
        "drains": drains,
        "calls": len(latencies),
        "failed": calls.faults + faults,
        "statuses": statuses,
    } | quantiles


def main(argv: Sequence[str] | None = None) -> int:
    """Run the drains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drains", type=int, default=20, help="servers to end (default: 20)")
    parser.add_argument("--wait", type=float, default=5, help="seconds of preStop (default: 5)")
    parser.add_argument("--through", choices=("sdk", "envoy"), default="sdk", help="who fails over (default: sdk)")
    arguments = parser.parse_args(argv)
    with ExitStack() as stack:
        servers = stack.enter_context(replica_set(MODELS))
        known = addresses(stack, servers, arguments.through)
        found = asyncio.run(drain_in_turn(servers, known, drains=arguments.drains, wait=arguments.wait))
    print(json.dumps({"through": arguments.through} | found))
    return int(bool(found["failed"]) or set(found["statuses"]) != {0})


if __name__ == "__main__":
    sys.exit(main())
