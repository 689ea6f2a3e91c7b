"""Processor time of a refusal: a server whose engine has no time for anyone is asked as often as it can answer.

    python -m benchmarks.refusal_cost [--stock] [--profile]

Prints the microseconds of the server and of the callers for each refused call; with --stock, of grpc.aio's own server
in the place of our listener; with --profile, where the server spends them.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any, NoReturn, cast
from unittest import mock

from prometheus_client import CollectorRegistry

from benchmarks.harness.bundled_model import request_of
from benchmarks.harness.light_calls import LightConnection, body_of, headers_of
from benchmarks.harness.processes import METHOD, cpu_seconds
from benchmarks.stock_grpc import StockListener
from xuanzang.loadtest.loops import closed_loop
from xuanzang.server.access.authentication import Authenticator
from xuanzang.server.access.metrics import AccessMetrics
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import OverloadedError
from xuanzang.server.metrics import Metrics
from xuanzang.server.rpc import server
from xuanzang.server.rpc.grpc_private import Listener
from xuanzang.server.rpc.limits import RpcLimits
from xuanzang.server.rpc.server import RpcServer
from xuanzang.serving import event_loop

SECONDS = 5.0
REFUSED = 8
"""RESOURCE_EXHAUSTED."""
AT_ONCE = 64
"""Calls in progress."""


class BusyEngine:
    """An engine that is too busy for every request."""

    glossaries = None
    max_content_characters = 10_000
    router = SimpleNamespace(require_pair=None)
    """Unused by calls that are refused unread."""

    def require_time(self, _caller: str, seconds: float) -> NoReturn:
        """Refuse a request."""
        message = f"the deadline is in {seconds:.2f} s, and the request would be done in about 60.00 s"
        raise OverloadedError(message, retry_after_seconds=0.5)


async def serve(*, profile: bool) -> None:
    """Serve until standard input ends."""
    registry = CollectorRegistry()
    served = RpcServer(
        cast("Engine", BusyEngine()),
        address="127.0.0.1:0",
        authenticator=Authenticator(None, anonymous=True, metrics=AccessMetrics(registry)),
        tls=None,
        limits=RpcLimits(),
        metrics=Metrics(registry),
    )
    await served.start()
    await served.open(["busy"])
    print(served.port, flush=True)
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    if profile:
        profiler.disable()
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(30)
    await served.close()
    await served.stop()


async def ask(port: int) -> int:
    """Call for some seconds, and return how often."""
    connection, calls = await LightConnection.open(f"127.0.0.1:{port}"), 0
    block = headers_of(METHOD, 5.0)
    body = body_of(request_of("你好。"))
    end = time.perf_counter() + SECONDS

    async def call(due: float) -> None:
        nonlocal calls
        ended = await connection.call(block, body, timeout=5.0, due=due)
        assert ended.code == REFUSED, ended
        calls += 1

    await closed_loop(call, callers=AT_ONCE, is_over=lambda: time.perf_counter() >= end)
    connection.close()
    return calls


def main() -> None:
    """Measure, or serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help="be the server")
    parser.add_argument("--stock", action="store_true", help="refuse with grpc.aio's own server")
    parser.add_argument("--profile", action="store_true", help="print where the server spends its time")
    args = parser.parse_args()
    if args.serve:
        listener = StockListener if args.stock else Listener
        with mock.patch.object(server, "Listener", listener):
            event_loop.run(serve(profile=args.profile))
        return
    command = [sys.executable, "-m", "benchmarks.refusal_cost", "--serve", *sys.argv[1:]]
    process: subprocess.Popen[Any] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdin, "a pipe, as asked for"
        assert process.stdout, "a pipe, as asked for"
        port = int(process.stdout.readline())
        before, own = cpu_seconds(process.pid), time.process_time()
        calls = asyncio.run(ask(port))
        used, callers = cpu_seconds(process.pid) - before, time.process_time() - own
        process.stdin.close()
    each = [
        f"{1e6 * seconds / calls:.0f} us of the {whose}" for seconds, whose in ((used, "server"), (callers, "callers"))
    ]
    print(f"{calls} refusals, each {' and '.join(each)}")


if __name__ == "__main__":
    main()
