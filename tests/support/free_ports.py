"""Ports for programs that take none of their own choice."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


def free_port(count: int = 1) -> int:
    """Return the first of some ports in a row that are free now."""
    while True:
        with socket.socket() as first:
            first.bind((LOOPBACK, 0))
            port = int(first.getsockname()[1])
            if port + count > 65_000:
                continue
            try:
                for number in range(1, count):
                    with socket.socket() as other:
                        other.bind((LOOPBACK, port + number))
            except OSError:
                continue
            return port
