"""gRPC calls written as HTTP/2 frames: a caller that takes a small part of the processor time of a gRPC library.

Requests are serialised once, headers are encoded once for each deadline, and of answers only the status is read.
It behaves as a gRPC client: it keeps the server's limit of calls in progress on a connection, waits for room
in the window of a connection, and answers pings.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from dataclasses import dataclass
from typing import Self

from hpack import Decoder, Encoder
from hyperframe.frame import Frame, PingFrame, RstStreamFrame, SettingsFrame, WindowUpdateFrame

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LARGE_WINDOW = (1 << 31) - 1
FIRST_WINDOW = (1 << 16) - 1
DATA, HEADERS, RESET, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
END_STREAM = ACK = 1
MAX_CONCURRENT_STREAMS = 3
UNLIMITED = 1_000_000
CANCEL = 8
CANCELLED, DEADLINE_EXCEEDED = 1, 4
# Literals without Huffman's code, as gRPC's core writes them: length of the value, then the value.
_STATUS = re.compile(rb"grpc-status([\x01-\x02])(\d+)")
_PUSHBACK = re.compile(rb"grpc-retry-pushback-ms([\x01-\x0a])(\d+)")


@dataclass(frozen=True, slots=True)
class Ended:
    """End of a call."""

    code: int
    """Status code of gRPC; 1 if the server reset the stream or closed the connection."""
    seconds: float
    """Time since the call was due."""
    advised: float | None
    """Seconds that the server asks to wait before a retry."""


@dataclass(slots=True)
class _Call:
    due: float
    ended: asyncio.Future[Ended]
    block: bytes
    body: bytes
    stream: int = 0
    """Number of its stream; 0 while it waits for a place."""
    timer: asyncio.TimerHandle | None = None


def headers_of(path: str, timeout: float) -> bytes:
    """Return the header block of a call, which refers to no earlier one.

    Args:
        path: "/service/Method".
        timeout: Seconds until the deadline.
    """
    encoder = Encoder()
    encoder.header_table_size = 0
    fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("grpc-timeout", f"{round(1000 * timeout)}m"),
    ]
    encoded: bytes = encoder.encode(fields)
    return encoded


def body_of(message: bytes) -> bytes:
    """Return a serialised message with its prefix."""
    return b"\0" + len(message).to_bytes(4, "big") + message


class LightConnection(asyncio.Protocol):
    """One connection to a server in plain text."""

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._received = bytearray()
        self._calls: dict[int, _Call] = {}
        self._statuses: dict[int, tuple[int, float | None]] = {}
        self._waiting: deque[_Call] = deque()
        self._output: list[bytes] = []
        self._next_stream = 1
        self._max_calls = 0  # until the server has said how many
        self._window = FIRST_WINDOW

    @classmethod
    async def open(cls, address: str) -> Self:
        """Connect to "host:port"."""
        host, _, port = address.rpartition(":")
        _, connection = await asyncio.get_running_loop().create_connection(cls, host, int(port))
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to speak HTTP/2."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        settings = SettingsFrame(
            0, {SettingsFrame.HEADER_TABLE_SIZE: 0, SettingsFrame.INITIAL_WINDOW_SIZE: LARGE_WINDOW}
        )
        window = WindowUpdateFrame(0, window_increment=LARGE_WINDOW - FIRST_WINDOW)
        transport.write(PREFACE + settings.serialize() + window.serialize())

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio passes it
        """End calls in progress."""
        for call in (*self._calls.values(), *self._waiting):
            self._end(call, CANCELLED, None)
        self._calls.clear()
        self._waiting.clear()

    def close(self) -> None:
        """Close the connection."""
        self._transport.abort()

    def call(self, block: bytes, body: bytes, *, timeout: float, due: float) -> asyncio.Future[Ended]:
        """Begin a call, or let it wait for a place.

        Args:
            block: Headers, from `headers_of`.
            body: Message, from `body_of`.
            timeout: Seconds until it is cancelled.
            due: Time of the call on the clock of `time.perf_counter`.
        """
        loop = asyncio.get_running_loop()
        call = _Call(due, loop.create_future(), block, body)
        call.timer = loop.call_later(timeout, self._expire, call)
        self._waiting.append(call)
        self._send_waiting()
        return call.ended

    def data_received(self, data: bytes) -> None:
        """Take frames."""
        self._received += data
        start, received = 0, self._received
        while len(received) - start >= 9:
            end = start + 9 + int.from_bytes(received[start : start + 3], "big")
            if len(received) < end:
                break
            stream = int.from_bytes(received[start + 5 : start + 9], "big") & LARGE_WINDOW
            self._take(received[start + 3], received[start + 4], stream, bytes(received[start + 9 : end]))
            start = end
        del received[:start]
        self._send_waiting()

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == HEADERS:
            self._take_headers(stream, flags, payload)
        elif kind == RESET:
            self._statuses.setdefault(stream, (CANCELLED, None))
            flags = END_STREAM
        elif kind == WINDOW_UPDATE and not stream:
            self._window += int.from_bytes(payload, "big")
        elif kind == SETTINGS and not flags & ACK:
            self._take_settings(payload)
        elif kind == PING and not flags & ACK:
            self._write(PingFrame(0, payload, flags=["ACK"]).serialize())
        if stream and kind in (HEADERS, DATA, RESET) and flags & END_STREAM:
            call = self._calls.pop(stream, None)
            status = self._statuses.pop(stream, (CANCELLED, None))
            if call is not None:
                self._end(call, *status)

    def _take_headers(self, stream: int, flags: int, block: bytes) -> None:
        if not flags & END_STREAM:
            return
        found = _STATUS.search(block)
        if found is not None:
            pushback = _PUSHBACK.search(block)
            advised = None if pushback is None else int(pushback[2][: pushback[1][0]]) / 1000
            self._statuses[stream] = (int(found[2][: found[1][0]]), advised)
            return
        for name, value in self._decoder.decode(block, raw=True):
            if name == b"grpc-status":
                self._statuses[stream] = (int(value), None)

    def _take_settings(self, payload: bytes) -> None:
        frame, _ = Frame.parse_frame_header(memoryview(len(payload).to_bytes(3, "big") + b"\x04\0\0\0\0\0"))
        frame.parse_body(memoryview(payload))
        assert isinstance(frame, SettingsFrame)
        self._max_calls = frame.settings.get(MAX_CONCURRENT_STREAMS, self._max_calls or UNLIMITED)
        self._write(SettingsFrame(0, flags=["ACK"]).serialize())

    def _send_waiting(self) -> None:
        while self._waiting and len(self._calls) < self._max_calls and self._window >= len(self._waiting[0].body):
            call = self._waiting.popleft()
            if call.ended.done():
                continue
            call.stream = stream = self._next_stream
            self._next_stream += 2
            self._calls[stream] = call
            self._window -= len(call.body)
            number = stream.to_bytes(4, "big")
            self._write(
                b"".join(
                    (
                        len(call.block).to_bytes(3, "big"),
                        b"\x01\x04",
                        number,
                        call.block,
                        len(call.body).to_bytes(3, "big"),
                        b"\x00\x01",
                        number,
                        call.body,
                    )
                )
            )

    def _write(self, data: bytes) -> None:
        if not self._output:
            asyncio.get_running_loop().call_soon(self._flush)
        self._output.append(data)

    def _flush(self) -> None:
        self._transport.write(b"".join(self._output))
        self._output.clear()

    def _expire(self, call: _Call) -> None:
        if self._calls.pop(call.stream, None) is not None:
            self._write(RstStreamFrame(call.stream, error_code=CANCEL).serialize())
        self._end(call, DEADLINE_EXCEEDED, None)

    @staticmethod
    def _end(call: _Call, code: int, advised: float | None) -> None:
        if call.timer is not None:
            call.timer.cancel()
        if not call.ended.done():
            call.ended.set_result(Ended(code, time.perf_counter() - call.due, advised))
