"""HTTP/2 requests written byte by byte, for callers that no gRPC library would let through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hpack import Encoder
from hyperframe.frame import DataFrame, HeadersFrame, SettingsFrame

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEALTH = b"/grpc.health.v1.Health/Check"
EMPTY_MESSAGE = bytes(5)

Header = tuple[bytes, bytes]


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request as its bytes are written."""

    path: bytes = HEALTH
    extra: Sequence[Header] = ()
    """Headers after those that every gRPC request has."""
    dropped: Sequence[bytes] = ()
    """Names of usual headers that are left out."""
    body: bytes | None = EMPTY_MESSAGE
    """Bytes of the messages with their prefixes; None ends the request with its headers."""
    is_ended: bool = True

    def frames(self, stream: int = 1) -> bytes:
        """Return the frames of the request, without the preface of a connection."""
        ends = ["END_STREAM"] if self.is_ended else []
        flags = ["END_HEADERS", *(ends if self.body is None else [])]
        headers = HeadersFrame(stream, block(self.headers()), flags=flags).serialize()
        return headers if self.body is None else headers + DataFrame(stream, self.body, flags=ends).serialize()

    def headers(self) -> list[Header]:
        """Return all headers."""
        usual = {
            b":method": b"POST",
            b":scheme": b"http",
            b":path": self.path,
            b":authority": b"localhost",
            b"te": b"trailers",
            b"content-type": b"application/grpc",
        }
        return [*((name, value) for name, value in usual.items() if name not in self.dropped), *self.extra]


def block(headers: Iterable[Header]) -> bytes:
    """Return a header block that refers to no earlier one."""
    # A size of 0 keeps the encoder from adding to the table that both sides share.
    encoder = Encoder()
    encoder.header_table_size = 0
    encoded: bytes = encoder.encode(headers)
    return encoded


def opening() -> bytes:
    """Return the preface and the settings that begin a connection."""
    settings: bytes = SettingsFrame(0).serialize()
    return PREFACE + settings


async def exchange(port: int, data: bytes, *, until: bytes = b"grpc-status", seconds: float = 60) -> bytes:
    """Send bytes on a connection of their own and return what is received.

    Args:
        port: Port of the server on this machine.
        data: Bytes to send.
        until: Bytes after which no more are awaited.
        seconds: Time after which no more are awaited.
    """
    received = b""
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(data)
                while until not in received and (more := await reader.read(65536)):
                    received += more
            finally:
                writer.transport.abort()
    except (TimeoutError, ConnectionResetError, BrokenPipeError):
        pass
    return received


@asynccontextmanager
async def connections(port: int, number: int, first: bytes) -> AsyncIterator[list[asyncio.StreamWriter]]:
    """Open connections that send some bytes and then nothing."""
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(number)]
    writers = [writer for _, writer in opened]
    for writer in writers:
        writer.write(first)
    try:
        yield writers
    finally:
        for writer in writers:
            writer.transport.abort()
