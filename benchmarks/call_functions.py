"""Functions that the event loop calls for one RPC, counted by cProfile.

    python -m benchmarks.call_functions --calls 1000 --at-once 16

Serves the newest bundled model, asks for sentences of `sentences.tsv`, one in each call, and prints the function calls
of the event loop's thread for each of them, those of Python and of C, in all and by file. The count hardly depends on
what else the machine does, unlike times; turns of the loop, of which a busy server makes fewer, are a few calls each.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import os
import pstats
import signal
import sys
from collections import Counter, deque
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import grpc

from benchmarks.harness.bundled_model import bundled_model, our_server, request_of
from benchmarks.harness.processes import METHOD
from xuanzang.loadtest.loops import closed_loop
from xuanzang.server.__main__ import main as serve

RUN_SERVER: Final = "--as-server"


def run_profiled(output: str) -> None:
    """Serve; profile the event loop from the first to the second SIGRTMIN, which writes the profile."""
    profile = cProfile.Profile()
    running = False

    def switch(*_: object) -> None:
        nonlocal running
        if running:
            profile.dump_stats(output)
        else:
            profile.enable()
        running = True

    signal.signal(signal.SIGRTMIN, switch)
    raise SystemExit(serve())


async def ask(address: str, requests: list[bytes], *, calls: int, at_once: int) -> None:
    """Send requests in turn, some at a time."""
    remaining = deque(islice(cycle(requests), calls))
    async with grpc.aio.insecure_channel(address) as channel:
        translate: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)

        async def call(_due: float) -> None:
            await translate(remaining.popleft())

        await closed_loop(call, callers=at_once, is_over=lambda: not remaining)


def counted(output: Path, calls: int) -> list[str]:
    """Return a line for all files together, and one for each of the busiest."""
    found: Any = pstats.Stats(str(output))
    by_file: Counter[str] = Counter()
    for (file, _, _), (_, count, *_) in found.stats.items():
        by_file["/".join(Path(file).parts[-3:])] += count
    rows = [("all", by_file.total()), *by_file.most_common(40)]
    return [f"{count / calls:8.1f}  {file}" for file, count in rows]


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000, help="RPCs that are counted")
    parser.add_argument("--at-once", type=int, default=16, help="RPCs in progress")
    parser.add_argument("--output", type=Path, default=Path("call_functions.prof"), help="file for the whole profile")
    arguments = parser.parse_args()
    model = bundled_model()
    requests = [request_of(text) for text in model.texts]
    program = ("-m", "benchmarks.call_functions", RUN_SERVER, str(arguments.output))
    with our_server(model, program=program) as server:
        for _ in range(2):  # the first time for one-time work
            asyncio.run(ask(server.address, requests, calls=arguments.calls, at_once=arguments.at_once))
            os.kill(server.pid, signal.SIGRTMIN)
    print("\n".join(counted(arguments.output, arguments.calls)))


if __name__ == "__main__":
    if RUN_SERVER in sys.argv:
        where = sys.argv.index(RUN_SERVER)
        profile_to = sys.argv[where + 1]
        del sys.argv[where : where + 2]
        run_profiled(profile_to)
    else:
        main()
