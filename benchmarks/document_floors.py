"""Measure what others suffer from uploads of hostile documents by `python -m benchmarks.document_floors`.

Starts a server and a gateway, and prints a line of JSON. A document whose texts are not translated in eight seconds is
answered 504, so that the longest request says what reading and writing cost. Loopback only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from hostile_documents import answered, attack, gateway, hostile_documents, memory
from replicas import Replica

_PROBES_PER_SECOND = 50


async def probed(port: int) -> None:
    """Ask whether the gateway lives until standard input ends, and print the latencies in milliseconds."""
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    latencies = []
    while not ended.done():
        began = time.perf_counter()
        assert await answered(port, "/livez", host="127.0.0.99") == 200
        latencies.append(1000 * (time.perf_counter() - began))
        await asyncio.sleep(1 / _PROBES_PER_SECOND)
    print(json.dumps(latencies))


async def latencies_during(port: int, work: Any) -> tuple[Any, list[float]]:
    """Return the result of some work, and the latencies of a process that probes meanwhile."""
    prober = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--probe", str(port)), stdin=PIPE, stdout=PIPE, stderr=DEVNULL
    )
    result = await work
    output, _ = await prober.communicate(b"")  # without input Python 3.11 would not close it
    return result, json.loads(output)


async def main() -> None:
    """Measure, or be one of the processes that a measurement needs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, default=Path("server/models"))
    parser.add_argument("--size", type=int, default=1_000_000, help="bytes of a document, about")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--probe", type=int, help="probe this port; measure nothing else")
    parser.add_argument("--attack", help="attack the gateway at --port for --seconds; measure nothing")
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.probe:
        await probed(arguments.probe)
        return
    if arguments.attack:
        print("begun", flush=True)
        await attack(arguments.port, hostile_documents(arguments.size), arguments.seconds)
        return
    server = Replica(arguments.models)
    server.ready()
    try:
        flags = ("--max-document-bytes=4194304", "--max-running-documents=8", "--document-timeout-seconds=8")
        async with gateway(server.address, *flags) as (process, port):
            await attack(port, hostile_documents(1000, seed=2), 5)  # warm
            _, calm = await latencies_during(port, asyncio.sleep(5))
            before = memory(process)
            found, latencies = await latencies_during(
                port, attack(port, hostile_documents(arguments.size), arguments.seconds)
            )
            statuses, longest = found
            await asyncio.sleep(1)
            print(
                json.dumps(
                    {
                        "calm_p99_ms": round(statistics.quantiles(calm, n=100)[98], 1),
                        "p99_ms": round(statistics.quantiles(latencies, n=100)[98], 1),
                        "probes": len(latencies),
                        "longest_request_s": round(longest, 2),
                        "statuses": {str(status): number for status, number in sorted(statuses.items())},
                        "memory_mb": [round(before / 1e6), round(memory(process) / 1e6)],
                    }
                )
            )
    finally:
        server.end()


if __name__ == "__main__":
    asyncio.run(main())
