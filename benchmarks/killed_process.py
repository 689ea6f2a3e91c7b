"""Kill one of several processes under load; print the time until it answers again, and what callers saw.

    python -m benchmarks.killed_process --processes 4 --rounds 3

A server of the bundled models has some processes, each with a separate address. Callers in a closed loop share the
SDK's connections to the common address. In each round another process gets SIGKILL, and its own address is called until
it answers. Prints a line of JSON for each round: the seconds until the parent has started a new process, until that
listens, and until it has answered; the processor seconds that it has used by then; the failed calls; latencies in
milliseconds before the kill and from then until the answer; and the share of the machine that other programs had. The
exit status is 1 if a call failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from benchmarks.harness.bundled_model import bundled_model, our_server
from benchmarks.harness.loads import percentile
from benchmarks.harness.processes import METHOD, ServerProcess, cpu_seconds, cpu_times, share_of_others
from xuanzang.client import AsyncTranslationClient, TranslationError

_LOOK_SECONDS = 0.01
_PATIENCE_SECONDS = 120.0
_TEXT = "我有三只猫。"


class _Call(NamedTuple):
    ended: float
    seconds: float
    fault: str


def _children(pid: int) -> set[int]:
    return {int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()}


def _free_ports(count: int) -> int:
    """Return the first of some free ports in a row."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = int(probe.getsockname()[1])
        if first + count < 1 << 16 and not any(map(_listens, range(first, first + count))):
            return first


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _answers(port: int, request: bytes) -> bool:
    with grpc.insecure_channel(f"127.0.0.1:{port}", (("grpc.use_local_subchannel_pool", 1),)) as channel:
        translate: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        try:
            translate(request, timeout=10)
        except grpc.RpcError:
            return False
    return True


def _seconds_until(holds: Callable[[], bool], began: float) -> float:
    while not holds():
        if time.monotonic() - began > _PATIENCE_SECONDS:
            raise TimeoutError(f"the process was not back within {_PATIENCE_SECONDS:g} s")
        time.sleep(_LOOK_SECONDS)
    return round(time.monotonic() - began, 2)


def _kill(server: ServerProcess, pid: int, port: int, request: bytes) -> dict[str, float]:
    """Kill a process; return the seconds until another is started, listens, and has answered, and its CPU time."""
    others, began = _children(server.pid) - {pid}, time.monotonic()
    os.kill(pid, signal.SIGKILL)
    started = _seconds_until(lambda: bool(_children(server.pid) - others - {pid}), began)
    listening = _seconds_until(lambda: _listens(port), began)
    answered = _seconds_until(lambda: _answers(port, request), began)
    [new] = _children(server.pid) - others
    return {"started": started, "listens": listening, "answered": answered, "processor": cpu_seconds(new)}


async def _round(server: ServerProcess, pid: int, port: int, request: bytes, arguments: Any) -> dict[str, Any]:
    calls: list[_Call] = []
    ends = asyncio.Event()

    async def call(client: AsyncTranslationClient) -> None:
        while not ends.is_set():
            began, fault = time.monotonic(), ""
            try:
                await client.translate_one(_TEXT, model="zh-en", timeout=30)
            except TranslationError as error:
                fault = str(error)
            calls.append(_Call(time.monotonic(), time.monotonic() - began, fault))

    before, used = cpu_times(), sum(map(cpu_seconds, _children(server.pid)))
    async with AsyncTranslationClient(server.address, connections=4 * arguments.processes) as client:
        callers = asyncio.gather(*(call(client) for _ in range(arguments.callers)))
        await asyncio.sleep(arguments.seconds)
        killed = time.monotonic()
        found: dict[str, Any] = dict(await asyncio.to_thread(_kill, server, pid, port, request))
        back = time.monotonic()
        await asyncio.sleep(1)
        ends.set()
        await callers
    used = sum(map(cpu_seconds, _children(server.pid))) - used
    after = cpu_times()
    found |= {"calls": len(calls), "failed": [each.fault for each in calls if each.fault]}
    for name, chosen in (
        ("before", [each.seconds for each in calls if each.ended < killed]),
        ("until back", [each.seconds for each in calls if killed <= each.ended < back]),
    ):
        found[name] = {f"p{int(100 * share)}": round(1000 * percentile(chosen, share)) for share in (0.5, 0.95, 1.0)}
    busy = share_of_others(before, after) - used / (after.total - before.total)
    return found | {"other programs": f"{busy:.0%}"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5, help="seconds of load before each kill (default: 5)")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args(argv)
    model, first = bundled_model(), _free_ports(arguments.processes)
    flags = ("--processes", str(arguments.processes), "--process-address", f"127.0.0.1:{first}", "--no-detection")
    failed = False
    with our_server(model, *flags) as server:
        for number in range(arguments.rounds):
            port = first + number % arguments.processes
            pid = next(each for each in sorted(_children(server.pid)) if _is_at(each, port))
            found = asyncio.run(_round(server, pid, port, model.request, arguments))
            print(json.dumps(found), flush=True)
            failed |= bool(found["failed"])
    return int(failed)


def _is_at(pid: int, port: int) -> bool:
    """Return whether the separate address of a process has a port."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").endswith(b":%d" % port)


if __name__ == "__main__":
    sys.exit(main())
