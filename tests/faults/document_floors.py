"""Measure what others suffer while documents of hostile texts are uploaded: python tests/faults/document_floors.py

Starts a server and a gateway, and prints a line of JSON. A document whose texts are not translated in eight seconds is
answered 504, so that the longest request says what reading and writing cost. Loopback only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from hostile_texts import ATOMS, DOCUMENTS, repeated
from replicas import Replica

AT_ONCE = 8
_PROBES_PER_SECOND = 50


@asynccontextmanager
async def gateway(server: str, *flags: str) -> AsyncIterator[tuple[Process, int]]:
    """Run a gateway process; yield it and its port."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "xuanzang.gateway", f"--server={server}", "--address=127.0.0.1:0", *flags),
        stderr=PIPE,
        env={name: value for name, value in os.environ.items() if not name.startswith("XUANZANG_")},
    )
    assert process.stderr is not None
    line: dict[str, Any] = {}
    while line.get("event") != "listening":
        line = json.loads(await process.stderr.readline())
    reading = asyncio.create_task(process.stderr.read())
    try:
        yield process, line["port"]
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading


async def answered(port: int, path: str, body: bytes | None = None, *, host: str = "127.0.0.1") -> int:
    """Send a request on a connection of its own and return the status of the answer.

    Args:
        body: Body of a POST; None: GET.
        host: Address to call from.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0))
    try:
        method = "GET" if body is None else "POST"
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        writer.write(f"{head}content-length: {len(body or b'')}\r\n\r\n".encode() + (body or b""))
        await writer.drain()
        status = int((await reader.readline()).split()[1])
        await reader.read()
        return status
    finally:
        writer.close()


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


def hostile_documents(size: int, *, seed: int = 1) -> Iterator[tuple[str, bytes]]:
    """Yield documents of all formats and atoms in random order: suffix and content of about a number of bytes."""
    pairs = list(product(DOCUMENTS.values(), ATOMS))
    Random(seed).shuffle(pairs)
    for (suffix, make), atom in pairs:
        content = make(repeated(atom, max(1, size // len(atom.encode()) * len(atom))))
        raw = content if isinstance(content, bytes) else content.encode()
        if len(raw) <= size * 2:
            yield suffix, raw[: 4 * 2**20]


async def attack(port: int, documents: Iterator[tuple[str, bytes]], seconds: float) -> tuple[Counter[int], float]:
    """Upload documents, eight callers at once; return the answers' statuses and the longest time for one."""
    statuses: Counter[int] = Counter()
    longest = 0.0
    ends = time.monotonic() + seconds

    async def caller(number: int) -> None:
        nonlocal longest
        for suffix, raw in documents:
            if time.monotonic() > ends:
                return
            began = time.monotonic()
            column = "&column=text" if suffix == ".csv" else ""
            path = f"/v1/documents?name=a{quote(suffix)}&source_language=zh&target_language=en{column}"
            statuses[await answered(port, path, raw, host=f"127.0.0.{10 + number}")] += 1
            longest = max(longest, time.monotonic() - began)

    await asyncio.gather(*(caller(number) for number in range(AT_ONCE)))
    return statuses, longest


def memory(process: Process) -> int:
    """Return the resident bytes of a process and its children."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()
    pages = (Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1] for pid in (process.pid, *children))
    return sum(map(int, pages)) * os.sysconf("SC_PAGE_SIZE")


async def latencies_during(port: int, work: Any) -> tuple[Any, list[float]]:
    """Return the result of some work, and the latencies of a process that probes meanwhile."""
    prober = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--probe", str(port)), stdin=PIPE, stdout=PIPE, stderr=DEVNULL
    )
    result = await work
    output, _ = await prober.communicate(b"")  # without input Python 3.11 would not close it
    return result, json.loads(output)


async def main() -> None:
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
