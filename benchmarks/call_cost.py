"""Processor time of a call, by thread: servers with the smallest work for the engine are asked as often as they answer.

    python -m benchmarks.call_cost --rounds 6 --seconds 5 --before ../other

The calls are of one sentence of one token, and the answers of one token, so the rest is the cost of a call. Prints
the microseconds of the event loop, of all other threads, and of the process, for each call: medians of the rounds, in
which the servers are asked in turn, and the ratio of the event loop's to that of the first. `bare` is grpc.aio alone,
with one method that answers at once; `--before` adds a server of another checkout, `--python` one of another
interpreter of the same version, `--steps` servers that answer before all is done:

- `stream`: grpc.aio alone, where the message is received as a stream is, with a time limit;
- `listener`: the same with our listener, which does not identify callers;
- `rpc`: with our way of an RPC; the method answers at once;
- `messages`: the request is read, checked and charged, and its model found;
- `engine`: its texts are split, tokenised and made a request of the scheduler, which does not get it.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.call_steps import STEPS
from benchmarks.harness.bundled_model import ServedModel, newest_bundle, our_server
from benchmarks.harness.light_calls import LightConnection, body_of, headers_of
from benchmarks.harness.processes import METHOD, ServerProcess, thread_cpu_seconds
from xuanzang.loadtest.loops import closed_loop
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A server to measure."""

    name: str
    checkout: Path | None = None
    python: Path = Path(sys.executable)
    step: str | None = None
    """Last step of a call that it does; None for all."""


def measure(server: ServerProcess, request: pb.TranslateTextRequest, seconds: float) -> Figures:
    """Ask a server for some seconds."""
    before, began = thread_cpu_seconds(server.pid), time.perf_counter()
    calls = asyncio.run(_ask(server.address, body_of(request.SerializeToString()), seconds))
    taken = time.perf_counter() - began
    used = {thread: seconds - before.get(thread, 0.0) for thread, seconds in thread_cpu_seconds(server.pid).items()}
    # The main thread has the event loop.
    loop = used.pop(server.pid)
    return Figures(1e6 * loop / calls, 1e6 * sum(used.values()) / calls, calls / taken)


async def _ask(address: str, body: bytes, seconds: float) -> int:
    connection, calls = await LightConnection.open(address), 0
    block, end = headers_of(METHOD, TIMEOUT_SECONDS), time.perf_counter() + seconds

    async def call(due: float) -> None:
        nonlocal calls
        ended = await connection.call(block, body, timeout=TIMEOUT_SECONDS, due=due)
        if ended.code:
            raise ValueError(f"a call ended with status {ended.code}")
        calls += 1

    await closed_loop(call, callers=AT_ONCE, is_over=lambda: time.perf_counter() >= end)
    connection.close()
    return calls


def started(run: Run, model: ServedModel) -> ServerProcess:
    """Return a server, to be entered."""
    program = ("-m", "xuanzang.server") if run.step is None else ("-m", "benchmarks.call_steps", run.step)
    return our_server(model, program=program, python=run.python, checkout=run.checkout)


def runs(arguments: argparse.Namespace) -> Iterator[Run]:
    """Yield the servers to compare, ours first."""
    yield Run(name="here")
    if arguments.before:
        yield Run(name="before", checkout=arguments.before)
    if arguments.python:
        yield Run(name="python", python=arguments.python)
    for step in STEPS if arguments.steps else ("bare",):
        yield Run(name=step, step=step)


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="loads of each server")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a load")
    parser.add_argument("--before", type=Path, help="root of another checkout, with its kernels built")
    parser.add_argument("--defaults", action="store_true", help="leave the options to the model: the engine works more")
    parser.add_argument("--python", type=Path, help="another interpreter of the same version")
    parser.add_argument("--steps", action="store_true", help="add servers that answer before all is done")
    arguments = parser.parse_args()
    model = ServedModel(bundle=newest_bundle(), texts=["好"])
    request = pb.TranslateTextRequest(
        contents=model.texts, settings=pb.TranslationSettings(options=None if arguments.defaults else SMALLEST)
    )
    with ExitStack() as stack:
        servers = {run.name: stack.enter_context(started(run, model)) for run in runs(arguments)}
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
