"""Ports for programs that take none of their own choice."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path

LOOPBACK = "127.0.0.1"
_FIRST = 10_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port(count: int = 1) -> int:
    """Return the first of some ports in a row that are free now.

    The kernel deals none of them to those who ask for any port, so they stay free until their program has started.
    """
    # Tests seed the module's generator: those that run beside this one would draw the same ports.
    chance = random.SystemRandom()
    dealt = int(_RANGE.read_text(encoding="ascii").split()[0]) if _RANGE.exists() else 32_768
    while True:
        port = chance.randrange(_FIRST, dealt - count)
        with ExitStack() as stack:
            try:
                for number in range(count):
                    stack.enter_context(socket.socket()).bind((LOOPBACK, port + number))
            except OSError:
                continue
            return port
