"""End servers one after the other under full load, as Kubernetes ends pods, and count the calls that are lost.

    python -m benchmarks.drains --drains 20
    python -m benchmarks.drains --drains 20 --through envoy

Two servers answer callers that each call again as soon as they have their answer. In turn each is told to end: for the
seconds of `preStop` it serves on, then it gets SIGTERM, refuses new calls, finishes the accepted ones and exits, and
its successor starts. Prints a line of JSON. The exit status is 1 if a call failed or had another answer than a lone
server gives, or if a server did not exit with status 0.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from replica_set import replica_set
from servers_under_load import Draining, drain_in_turn, known_addresses

from benchmarks.harness.bundled_model import MODELS
from benchmarks.harness.loads import percentile


def figures(found: Draining) -> dict[str, Any]:
    """Return what became of calls and servers; latencies in milliseconds."""
    latencies = [1000 * (each.ended - each.due) for each in found.outcomes]
    quantiles = {f"p{int(100 * share)}": round(percentile(latencies, share)) for share in (0.5, 0.99, 1)}
    shown = {"drains": len(found.statuses), "calls": len(latencies), "failed": found.faults}
    return shown | {"statuses": found.statuses} | quantiles


def main(argv: Sequence[str] | None = None) -> int:
    """Run the drains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drains", type=int, default=20, help="servers to end (default: 20)")
    parser.add_argument("--wait", type=float, default=5, help="seconds of preStop (default: 5)")
    parser.add_argument("--through", choices=("sdk", "envoy"), default="sdk", help="who fails over (default: sdk)")
    arguments = parser.parse_args(argv)
    with ExitStack() as stack:
        servers = stack.enter_context(replica_set(MODELS))
        known = known_addresses(stack, servers, arguments.through)
        found = asyncio.run(drain_in_turn(servers, known, drains=arguments.drains, wait=arguments.wait))
    print(json.dumps({"through": arguments.through} | figures(found)))
    return int(bool(found.faults) or set(found.statuses) != {0})


if __name__ == "__main__":
    sys.exit(main())
