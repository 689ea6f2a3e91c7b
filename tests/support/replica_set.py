"""Servers behind one client that are killed, or ended as Kubernetes ends pods, and replaced."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from free_ports import free_port
from replicas import Replica


class ReplicaSet:
    """Servers on ports that their successors take over."""

    def __init__(self, models: Path, number: int) -> None:
        """Start the servers."""
        self._models = models
        self._replicas = [Replica(models, free_port()) for _ in range(number)]
        for replica in self._replicas:
            replica.ready()

    @property
    def addresses(self) -> list[str]:
        """Addresses of the servers, HOST:PORT."""
        return [replica.address for replica in self._replicas]

    async def kill(self, index: int) -> None:
        """End a server by SIGKILL."""
        self._replicas[index].send(signal.SIGKILL)
        await asyncio.to_thread(self._replicas[index].process.wait)

    async def drain(self, index: int, wait: float) -> int:
        """End a server in the order of Kubernetes and return its exit status.

        Args:
            index: Place of the server.
            wait: Seconds of the `preStop` hook, in which the server serves on.
        """
        await asyncio.sleep(wait)
        self._replicas[index].send(signal.SIGTERM)
        return await asyncio.to_thread(self._replicas[index].process.wait)

    async def replace(self, index: int) -> None:
        """Start the successor of a server that has ended, and wait until it serves."""
        await asyncio.to_thread(self._start, index)

    def _start(self, index: int) -> None:
        old = self._replicas[index]
        old.end()
        self._replicas[index] = Replica(self._models, int(old.address.rpartition(":")[2]))
        self._replicas[index].ready()

    def end(self) -> None:
        """Kill the servers."""
        for replica in self._replicas:
            replica.end()


@contextmanager
def replica_set(models: Path, number: int = 2) -> Iterator[ReplicaSet]:
    """Yield servers, and end them afterwards."""
    replicas = ReplicaSet(models, number)
    try:
        yield replicas
    finally:
        replicas.end()
