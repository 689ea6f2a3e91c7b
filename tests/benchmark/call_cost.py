"""Processor time of a call, by thread: servers with the smallest work for the engine are asked as often as they answer.

    PYTHONPATH=tests/benchmark python tests/benchmark/call_cost.py --rounds 6 --seconds 5 --before ../other

The calls are of one sentence of one token, and the answers of one token, so what is left is what a call costs. Prints
the microseconds of the event loop, of all other threads, and of the process, for each call: medians of the rounds, in
which the servers are asked in turn, and the ratio of the event loop's to that of the first. `bare` is grpc.aio alone,
with one method that answers at once; `--before` adds a server of another checkout.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import grpc
from light_calls import LightConnection, body_of, headers_of
from observation import ROOMS, ROOT
from processes import METHOD, ServerProcess, free_address
from served import ServedModel, our_server

from xuanzang.translation.v1 import translation_pb2 as pb

AT_ONCE = 16
"""Calls in progress."""
TIMEOUT_SECONDS = 20.0
SMALLEST = pb.DecodingOptions(beam_size=1, max_target_length=1)


class Figures(NamedTuple):
    """Microseconds of a call."""

    event_loop: float
    others: float
    calls_per_second: float


async def serve_bare(address: str) -> None:
    """Serve with grpc.aio alone until the process ends."""
    answer = pb.TranslateTextResponse(translations=[pb.Translation(hypotheses=[pb.Hypothesis(text="Good")])])

    async def translate(_request: pb.TranslateTextRequest, _context: object) -> pb.TranslateTextResponse:
        return answer

    handler: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(
        translate,
        request_deserializer=pb.TranslateTextRequest.FromString,
        response_serializer=pb.TranslateTextResponse.SerializeToString,
    )
    _, service, method = METHOD.split("/")
    server = grpc.aio.server()
    server.add_registered_method_handlers(service, {method: handler})
    server.add_insecure_port(address)
    await server.start()
    await server.wait_for_termination()


def measure(server: ServerProcess, request: pb.TranslateTextRequest, seconds: float) -> Figures:
    """Ask a server for some seconds."""
    before, began = cpu_seconds(server.pid), time.perf_counter()
    calls = asyncio.run(_ask(server.address, body_of(request.SerializeToString()), seconds))
    taken = time.perf_counter() - began
    used = {thread: seconds - before.get(thread, 0.0) for thread, seconds in cpu_seconds(server.pid).items()}
    # The main thread has the event loop.
    loop = used.pop(server.pid)
    return Figures(1e6 * loop / calls, 1e6 * sum(used.values()) / calls, calls / taken)


async def _ask(address: str, body: bytes, seconds: float) -> int:
    connection, calls = await LightConnection.open(address), 0
    block, end = headers_of(METHOD, TIMEOUT_SECONDS), time.perf_counter() + seconds

    async def repeat() -> None:
        nonlocal calls
        while (now := time.perf_counter()) < end:
            ended = await connection.call(block, body, timeout=TIMEOUT_SECONDS, due=now)
            if ended.code:
                raise ValueError(f"a call ended with status {ended.code}")
            calls += 1

    await asyncio.gather(*(repeat() for _ in range(AT_ONCE)))
    connection.close()
    return calls


def cpu_seconds(process: int) -> dict[int, float]:
    """Return the CPU time that each thread of a process has used so far, to the nanosecond."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return {int(thread.name): int((thread / "schedstat").read_text("utf-8").split()[0]) / 1e9 for thread in threads}


@contextmanager
def started(name: str, checkout: Path | None, model: ServedModel) -> Iterator[tuple[str, ServerProcess]]:
    """Run the server of a checkout, or of grpc.aio alone."""
    if checkout is None:
        address = free_address()
        server = ServerProcess(__file__, "--serve", address, address=address, request=model.request)
    else:
        rooms = os.pathsep.join(str(checkout / room / "src") for room in ROOMS)
        with mock.patch.dict(os.environ, {"PYTHONPATH": rooms}):
            server = our_server(model)
    with server:
        yield name, server


def lines(found: Mapping[str, Sequence[Figures]]) -> Iterator[str]:
    """Yield the table."""
    yield f"{'':10}{'event loop us':>15}{'of the first':>14}{'others us':>11}{'calls/s':>9}"
    first = next(iter(found.values()))
    for name, figures in found.items():
        loop, others, rate = (statistics.median(column) for column in zip(*figures, strict=True))
        ratio = statistics.median(one.event_loop / other.event_loop for one, other in zip(figures, first, strict=True))
        yield f"{name:10}{loop:15.0f}{ratio:14.3f}{others:11.0f}{rate:9.0f}"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6, help="loads of each server")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a load")
    parser.add_argument("--before", type=Path, help="root of another checkout, with its kernels built")
    parser.add_argument("--defaults", action="store_true", help="leave the options to the model: the engine works more")
    parser.add_argument("--serve", metavar="ADDRESS", help="be the server of grpc.aio alone")
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve_bare(arguments.serve))
        return
    bundle = max((ROOT / "server/models/zh-en").iterdir(), key=lambda folder: int(folder.name))
    model = ServedModel(name="zh-en", bundle=bundle, ctranslate2=bundle, texts=["好"])
    request = pb.TranslateTextRequest(contents=model.texts, options=None if arguments.defaults else SMALLEST)
    checkouts = {"here": ROOT, **({"before": arguments.before} if arguments.before else {}), "bare": None}
    with ExitStack() as stack:
        servers = dict(stack.enter_context(started(name, checkout, model)) for name, checkout in checkouts.items())
        found: dict[str, list[Figures]] = {name: [] for name in servers}
        for server in servers.values():
            measure(server, request, 1.0)
        for _ in range(arguments.rounds):
            for name in random.sample(list(servers), len(servers)):
                found[name].append(measure(servers[name], request, arguments.seconds))
                print(name, found[name][-1], file=sys.stderr)
    print("\n".join(lines(found)))


if __name__ == "__main__":
    main()
