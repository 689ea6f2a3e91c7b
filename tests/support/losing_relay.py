"""A relay between a client and a server that loses answers and connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class LosingRelay:
    """Relay to a server that can lose the server's answers and then the connection."""

    def __init__(self, address: str) -> None:
        self._host, _, self._port = address.rpartition(":")
        self._writers: list[asyncio.StreamWriter] = []
        self._relays = set[asyncio.Task[None] | None]()
        self._is_losing = False
        self.connections = 0
        self.address = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Relay connections to `address` until the block ends."""
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield
        finally:
            server.close()
            self.cut()
            relays = [each for each in self._relays if each and each.cancel()]
            await asyncio.gather(*relays, return_exceptions=True)
            # Transports close in the next turn of the loop.
            await asyncio.sleep(0)

    def lose(self) -> None:
        """Hand on no more answers."""
        self._is_losing = True

    def cut(self) -> None:
        """End all connections; later ones work."""
        self._is_losing = False
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._relays.add(asyncio.current_task())
        self._writers.append(writer)
        try:
            up_reader, up_writer = await asyncio.open_connection(self._host, self._port)
            self._writers.append(up_writer)
            try:
                await asyncio.gather(self._pass(reader, up_writer), self._pass(up_reader, writer, answers=True))
            finally:
                up_writer.transport.abort()
        except OSError:
            pass
        finally:
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool = False) -> None:
        while data := await reader.read(65536):
            if not (answers and self._is_losing):
                writer.write(data)
