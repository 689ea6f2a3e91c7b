"""Kill one of two servers under load; print the failed calls and the latency around the kill.

    python -m benchmarks.failover --through sdk
    python -m benchmarks.failover --through envoy

Measures the capacity of both servers with a closed loop, then lets calls arrive at a share of it. One server is killed,
and another takes its port at once, as a supervisor would have it. Prints a line of JSON for each round. Among the
figures is the system's load average: more than the number of cores means that calls waited for other programs, too. The
exit status is 1 if a call failed, or had another answer than a lone server gives.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from replica_set import replica_set
from servers_under_load import Killing, kill_under_load, known_addresses

from benchmarks.harness.bundled_model import MODELS
from benchmarks.harness.loads import percentile

AROUND_SECONDS = (1.0, 5.0)
"""Seconds before and after the kill; calls due within count as around it."""


def figures(found: Killing) -> dict[str, Any]:
    """Return the figures of a run; latencies in milliseconds, from when a call was due."""
    before, after = AROUND_SECONDS
    kinds = {
        "before": [each for each in found.outcomes if each.due < found.killed - before],
        "around": [each for each in found.outcomes if found.killed - before <= each.due < found.killed + after],
    }
    shown: dict[str, Any] = {"rate": round(found.rate, 1), "failed": found.faults}
    shown |= {"replaced_seconds": round(found.replaced_seconds, 2), "calls": len(found.outcomes)}
    for name, chosen in kinds.items():
        latencies = [1000 * (each.ended - each.due) for each in chosen]
        quantiles = {f"p{int(100 * share)}": round(percentile(latencies, share)) for share in (0.5, 0.95, 0.99)}
        shown[name] = {"calls": len(chosen), **quantiles, "max": round(max(latencies))}
    return shown


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
            known = known_addresses(stack, servers, arguments.through)
            found = asyncio.run(kill_under_load(servers, known, share=arguments.share, seconds=arguments.seconds))
        conditions = {"through": arguments.through, "load_average": round(os.getloadavg()[0], 1)}
        print(json.dumps(conditions | figures(found)), flush=True)
        failed |= bool(found.faults)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
