"""Documents of hostile texts, uploaded to a gateway by eight callers at once."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

from hostile_texts import ATOMS, DOCUMENTS, repeated

AT_ONCE = 8


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
