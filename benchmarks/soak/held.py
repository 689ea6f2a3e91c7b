"""Leftovers of calls: objects and bytes that an idle server holds after rounds of the soak's requests.

    python -m benchmarks.soak.held

A server that leaks a byte for each call shows it as a growth from round to round. Caches of a limited size fill in the
first rounds. Prints a line for each round. Needs glibc.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import sys
import threading

from benchmarks.harness.bundled_model import MODELS, request_of, sentences
from benchmarks.harness.processes import ServerProcess, free_address
from benchmarks.soak.callers import Callers
from xuanzang.server.__main__ import main as run_server

CALLERS = 40
"""Concurrent callers; as many requests there are of each kind."""
REPEATS = 5
"""Times that each request is made in a round."""
IDLE_SECONDS = 13.0
"""Longer than idle workers keep their memory."""


class Heap(ctypes.Structure):
    """glibc's figures of its heaps (`mallinfo2`)."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks")),
        ("used", ctypes.c_size_t),
        ("free", ctypes.c_size_t),
        ("keepcost", ctypes.c_size_t),
    )


def answer() -> None:
    """Answer each line of standard input with the objects and bytes that are held now."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Heap
    for _ in sys.stdin:
        gc.collect()
        print(json.dumps({"objects": sys.getallocatedblocks(), "c_bytes": mallinfo().used}), flush=True)


async def measure(server: ServerProcess, rounds: int) -> None:
    """Print what a server holds after each round."""
    callers = Callers(server.address, sentences(), seed=1)
    for number in range(1, rounds + 1):
        for _ in range(REPEATS):
            await callers.fill(CALLERS)
        await asyncio.sleep(IDLE_SECONDS)
        held = await asyncio.to_thread(server.ask, "held")
        calls = callers.record.codes.total()
        print(f"round {number}, {calls} calls: {held['objects']} objects, {held['c_bytes']} bytes of the C library")
    await callers.close()


def main() -> int:
    """Measure, or serve."""
    if sys.argv[1:2] == ["--serve"]:
        del sys.argv[1]
        threading.Thread(target=answer, daemon=True).start()
        return run_server()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    address = free_address()
    flags = (f"--models={MODELS}", f"--address={address}", "--metrics-address=127.0.0.1:0")
    request = request_of(sentences()[0])
    command = ("-m", "benchmarks.soak.held", "--serve", *flags, "--log-level=warning")
    with ServerProcess(*command, address=address, request=request) as server:
        asyncio.run(measure(server, rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
