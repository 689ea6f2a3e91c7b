"""A relay that keeps every byte that passes through it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Sniffer:
    """Bytes that have passed through a relay."""

    def __init__(self) -> None:
        self.port = 0
        self.seen = bytearray()
        self.connections = 0

    def has_seen(self, secret: str) -> bool:
        """Return whether a secret passed in clear text, in either direction."""
        return secret.encode() in self.seen


@asynccontextmanager
async def sniffed(port: int) -> AsyncIterator[Sniffer]:
    """Relay connections to a port of this machine, and keep what passes.

    Args:
        port: Port of 127.0.0.1.
    """
    sniffer = Sniffer()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                sniffer.seen += data
                writer.write(data)
                await writer.drain()
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sniffer.connections += 1
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, back), copy(there, writer))

    # A connection to 0.0.0.0, which is no loopback address by its name, leads here, too.
    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    sniffer.port = server.sockets[0].getsockname()[1]
    async with server:
        yield sniffer
