"""Crowds at a gateway: what a caller and a probe suffer from them.

    python -m benchmarks.gateway_crowds --seconds 5 --only unread

For each attack a gateway is started before one server. A caller at 127.0.0.2 translates one sentence after the other, a
probe asks for /livez from the attacker's address: calm at first, then during the attack, which comes from 127.0.0.1.
Then the gateway is told to stop. Prints one line of JSON per attack, with the share of a core that gateway, server and
attacker each took. Loopback only; needs files for 5,000 connections.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness.processes import cpu_seconds

MODELS = Path(__file__).parents[1] / "server" / "models"
ASK = json.dumps({"texts": ["我有一只猫。"], "source_language": "zh", "target_language": "en"}).encode()
SEVERAL = {"text": "我有一只猫。" * 4, "source_language": "zh", "target_language": "en"}
CALLER = "127.0.0.2"
ATTACKER = "127.0.0.1"
DRAIN_SECONDS = 3
HEAD = b"POST %s HTTP/1.1\r\nhost: localhost\r\n"


def post(path: bytes, body: bytes) -> bytes:
    """Return a whole request."""
    return HEAD % path + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


async def hold(port: int, number: int, first: bytes, *, drip: bytes = b"", reads: bool = True) -> None:
    """Open connections, send some bytes and then, every second, some more; for ever."""
    loop = asyncio.get_running_loop()
    held: list[socket.socket] = []
    for _ in range(number):
        with suppress(OSError):
            connection = socket.socket()
            connection.setblocking(False)
            if not reads:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await loop.sock_connect(connection, ("127.0.0.1", port))
            await loop.sock_sendall(connection, first)
            held.append(connection)
    print("begun", flush=True)
    while True:
        await asyncio.sleep(1)
        for connection in held if drip else ():
            with suppress(OSError):
                connection.send(drip)


async def repeat(port: int, at_once: int, first: bytes, more: bytes = b"") -> None:
    """Send bytes on several connections, as many as are taken, again and again."""

    async def one() -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    writer.write(first)
                    async with asyncio.timeout(10):
                        while more:
                            writer.write(more)
                            await writer.drain()
                        await reader.read()
                except TimeoutError:
                    pass
                finally:
                    writer.transport.abort()

    print("begun", flush=True)
    await asyncio.gather(*(one() for _ in range(at_once)))


async def call(port: int, at_once: int, request: bytes, *, patience: float = 60) -> None:
    """Send a request on several connections, again and again, and read the answers or hang up after some seconds."""

    async def one() -> None:
        while True:
            with suppress(OSError, EOFError, TimeoutError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    while True:
                        writer.write(request)
                        async with asyncio.timeout(patience):
                            head = await reader.readuntil(b"\r\n\r\n")
                            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
                        if b" 200 " not in head[:16]:
                            await asyncio.sleep(0.05)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(0.01)

    print("begun", flush=True)
    await asyncio.gather(*(one() for _ in range(at_once)))


def large() -> dict[str, bytes]:
    """Return requests of a mebibyte, which is as much as a gateway takes by default."""
    settings, mebibyte = {"source_language": "zh", "target_language": "en"}, 2**20 - 200
    html = json.dumps({"texts": ["<a" * (mebibyte // 2)], "content_format": "html", **settings}).encode()
    texts = json.dumps({"texts": ["hello wereld " * 78] * 1024}).encode()
    field = b'--x\r\ncontent-disposition: form-data; name="%d"\r\n\r\n%s\r\n'
    fields = b"".join(field % (number, b"y" * 400) for number in range(2040)) + b"--x--\r\n"
    value = field % (1, b"\r\n--y" * (mebibyte // 5 - 100)) + b"--x--\r\n"
    form = HEAD % b"/translate" + b"content-type: multipart/form-data; boundary=x\r\ncontent-length: %d\r\n\r\n%s"
    return {
        "HTML of 1 MiB": post(b"/v1/translate", html),
        "texts of 1 MiB to detect": post(b"/v1/detect", texts),
        "texts of 1 MiB without a language": post(b"/v1/translate", texts[:-1] + b', "target_language": "en"}'),
        "forms of 2,040 fields": form % (len(fields), fields),
        "forms of one field": form % (len(value), value),
    }


def attacks(port: int) -> dict[str, Callable[[], Awaitable[None]]]:
    """Return each attack under its name."""
    chunked = HEAD % b"/v1/translate" + b"transfer-encoding: chunked\r\n\r\n"
    languages = {"source_language": "zh", "target_language": "en"}
    begun = HEAD + b"content-length: 100000\r\n\r\n{"
    stream = post(b"/v1/translate/stream", json.dumps(SEVERAL).encode())
    description = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n"
    wrong = post(b"/v1/translate", b'{"texts": [' + b"1," * 490_000 + b"1]}")
    livez = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"
    eight = post(
        b"/v1/translate", json.dumps({**languages, "texts": ["今天天气很好，我们去公园散步吧。"] * 8}).encode()
    )
    hundreds = json.dumps({**languages, "texts": ["我们明天去北京。" * 20] * 8}).encode()
    return {
        "64 callers of 8 texts": lambda: call(port, 64, eight),
        "700 callers of 8 texts": lambda: call(port, 700, eight),
        "callers who hang up": lambda: call(port, 8, post(b"/v1/translate", hundreds), patience=0.3),
        **{name: partial(call, port, 4, request) for name, request in large().items()},
        "5,000 idle": lambda: hold(port, 5000, b""),
        "5,000 idle after a request": lambda: hold(port, 5000, livez),
        "1,000 half-open": lambda: hold(port, 1000, b"GET /livez HTTP/1.1\r\nx: ", drip=b"y"),
        "300 unread streams": lambda: hold(port, 300, stream * 4, reads=False),
        "300 unread large answers": lambda: hold(port, 300, description * 200, reads=False),
        "1,000 dripping bodies": lambda: hold(port, 1000, begun % b"/v1/translate", drip=b" "),
        "1,000 dripping bodies to nowhere": lambda: hold(port, 1000, begun % b"/nowhere", drip=b" "),
        "trailers": lambda: repeat(port, 4, chunked + b"0\r\n", b"x: " + b"y" * 60_000 + b"\r\n"),
        "1 MB of wrong JSON": lambda: repeat(port, 2, wrong),
        "large bodies": lambda: repeat(port, 8, post(b"/v1/documents?name=a.exe", b" " * 4_000_000)),
        "20,000 pipelined": lambda: repeat(port, 1, livez * 20_000),
    }


async def calls(
    port: int, source: str, request: bytes, seconds: float, pause: float
) -> tuple[list[float], Counter[str]]:
    """Make calls one after the other; return their latencies in ms, and their statuses."""
    latencies, statuses = [], Counter[str]()
    ends = time.monotonic() + seconds
    writer = None
    while time.monotonic() < ends:
        began = time.perf_counter()
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split()[0])
            await reader.readexactly(length)
            statuses[head.split()[1].decode()] += 1
        except (OSError, EOFError):
            statuses["broken"] += 1
            writer = None
        latencies.append(1000 * (time.perf_counter() - began))
        await asyncio.sleep(pause)
    if writer is not None:
        writer.close()
    return latencies, statuses


async def measured(port: int, seconds: float) -> dict[str, object]:
    """Return what a caller and a probe see."""
    probe = b"GET /livez HTTP/1.1\r\nhost: 10.0.0.1\r\n\r\n"
    (called, answers), (probed, probes) = await asyncio.gather(
        calls(port, CALLER, post(b"/v1/translate", ASK), seconds, 0), calls(port, ATTACKER, probe, seconds, 0.05)
    )
    quantiles = statistics.quantiles(called, n=100)
    return {
        "calls": dict(answers),
        "p50_ms": round(quantiles[49], 1),
        "p99_ms": round(quantiles[98], 1),
        "probes": dict(probes),
        "probe_p99_ms": round(statistics.quantiles(probed, n=100)[98], 1),
    }


def memory_mb(pid: int, name: str) -> int:
    """Return VmRSS or VmHWM of a process."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(name))


@contextmanager
def started(*command: str, until: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """Start a process; yield it and the log line of its address."""
    process = subprocess.Popen([sys.executable, "-m", *command], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    seen: dict[str, Any] = {}
    while until not in seen:
        line = json.loads(process.stderr.readline())
        seen[line["event"]] = line
    # The rest is not read: a full pipe would block the process.
    subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
    try:
        yield process, seen["listening"]
    finally:
        process.kill()
        process.wait()


async def one(server: str, pid: int, name: str, seconds: float) -> dict[str, object]:
    """Measure one attack on a gateway before a server of a process."""
    flags = (f"--server={server}", "--address=127.0.0.1:0", f"--drain-timeout-seconds={DRAIN_SECONDS}")
    with started("xuanzang.gateway", *flags, until="listening") as (gateway, listening):
        port = listening["port"]
        await measured(port, 1)
        calm = await measured(port, seconds)
        warm = memory_mb(gateway.pid, "VmRSS")
        attacker = await asyncio.create_subprocess_exec(
            *("nice", sys.executable, "-m", "benchmarks.gateway_crowds", "--attack", name, "--port", str(port)),
            stdout=asyncio.subprocess.PIPE,
        )
        assert attacker.stdout is not None
        await attacker.stdout.readline()
        await asyncio.sleep(1)
        pids = {"gateway": gateway.pid, "server": pid, "attacker": attacker.pid}
        used = {who: cpu_seconds(process) for who, process in pids.items()}
        attacked = await measured(port, seconds)
        cores = {who: round((cpu_seconds(process) - used[who]) / seconds, 2) for who, process in pids.items()}
        highest = memory_mb(gateway.pid, "VmHWM")
        began = time.monotonic()
        gateway.terminate()
        status = await asyncio.to_thread(gateway.wait)
        ended = time.monotonic() - began
        attacker.kill()
        await attacker.wait()
    return {
        "attack": name,
        "calm_p99_ms": calm["p99_ms"],
        **attacked,
        "cores": cores,
        "warm_mb": warm,
        "highest_mb": highest,
        "ended_after_s": round(ended, 1),
        "status": status,
    }


async def main() -> None:
    """Read the arguments; attack, or measure all attacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6, help="of each phase")
    parser.add_argument("--only", default="", help="attacks with this in their names")
    parser.add_argument("--attack", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.attack:
        await attacks(arguments.port)[arguments.attack]()
        return
    flags = (f"--models={MODELS}", "--workers=1", "--address=127.0.0.1:0", "--metrics-address=127.0.0.1:0")
    with started("xuanzang.server", *flags, until="serving") as (process, listening):
        server = f"127.0.0.1:{listening['port']}"
        for name in attacks(0):
            if arguments.only in name:
                print(json.dumps(await one(server, process.pid, name, arguments.seconds)), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
