"""HTTP/1.1 connections: how many there are, how long each may wait for its peer, how much of a request is no body."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from typing_extensions import override
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from xuanzang.serving.networks import network_of

MAX_HEAD_BYTES = 64 * 1024
"""Size of a request's head; what frames a body, trailers included, may have as much, and the size of the body."""
DISCARDED_BYTES = 2**20
"""Bytes still taken of a body after the answer; a caller who is sending would not see it if the end came first."""
_READ_BYTES = 1024
"""Bytes parsed at once that may be heads: they bound how long one connection keeps the others waiting."""
_READ_BODY_BYTES = 64 * 1024
"""Bytes parsed at once of a body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of connections."""

    total: int
    """Connections."""
    of_address: int
    """Connections of one network address."""
    receive_seconds: float
    """Time for the head of a request to arrive, and again for its body."""
    send_seconds: float
    """Longest time without progress in sending an answer."""


class Connections:
    """The open connections by network address. Newcomers replace connections without a request in progress."""

    def __init__(self, limits: ConnectionLimits) -> None:
        """Hold none."""
        self._limits = limits
        self._by_address: dict[str, dict[BoundedProtocol, None]] = {}
        self._number = 0

    def admit(self, newcomer: BoundedProtocol) -> bool:
        """Take in a connection, at the cost of another one if there are too many.

        Returns:
            True if there is room; requests in progress keep their connections.
        """
        crowd: dict[BoundedProtocol, None] = {}
        if len(self._by_address.get(newcomer.address, ())) >= self._limits.of_address:
            crowd = self._by_address[newcomer.address]
        elif self._number >= self._limits.total:
            crowd = max(self._by_address.values(), key=len)
        if crowd:
            spare = min((each for each in crowd if not each.is_at_work), key=lambda each: each.worth, default=None)
            if spare is None:
                return False
            self.forget(spare)
            spare.transport.abort()
        self._by_address.setdefault(newcomer.address, {})[newcomer] = None
        self._number += 1
        return True

    def forget(self, connection: BoundedProtocol) -> None:
        """Hold a connection no longer."""
        of_address = self._by_address.get(connection.address, {})
        if connection in of_address:
            del of_address[connection]
            self._number -= 1
            if not of_address:
                del self._by_address[connection.address]


class _Turns(FlowControl):
    """Reads nothing while requests that have arrived wait for their turn, however often the first asks for more."""

    def __init__(self, transport: asyncio.Transport, waiting: Iterable[object]) -> None:
        super().__init__(transport)
        self._waiting = waiting

    @override
    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


class _Parser(HttpRequestParser):
    """A parser whose protocol answers requests to change the protocol, as Java's client sends, in HTTP/1.1.

    httptools takes the body of such a request for the other protocol.
    """

    def __init__(self, protocol: BoundedProtocol) -> None:
        super().__init__(protocol)
        self._protocol = protocol
        # As uvicorn, with httptools from 0.6.3 on: a request that ends the connection is answered, whatever follows it.
        with suppress(AttributeError):
            self.set_dangerous_leniencies(lenient_data_after_close=True)

    @override
    def feed_data(self, data: Any) -> None:
        try:
            super().feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._protocol.begin_again(data[upgrade.args[0] :])


class BoundedProtocol(HttpToolsProtocol, asyncio.BufferedProtocol):
    """Ends connections whose peer is too slow, reads nothing, or sends much that is no body. Drops trailers."""

    limits: ClassVar[ConnectionLimits]
    registry: ClassVar[Connections]

    address = ""
    """Network address of the peer."""
    _since = 0.0
    _answered = False
    _receiving: asyncio.TimerHandle | None = None
    _sending: asyncio.TimerHandle | None = None
    _in_head = True
    _declared_bytes = 0
    """Size of the body, as far as the head tells it."""
    _body_bytes = 0
    _discarded_bytes = 0
    _other_bytes = 0
    """Bytes of the request that have arrived and are no body."""

    @property
    def worth(self) -> tuple[int, float]:
        """Rank in the order of replacement, the lowest first: never answered, idle, not reading its answer."""
        is_answering = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        return (2 if is_answering else int(self._answered), self._since)

    @property
    def is_at_work(self) -> bool:
        """True if a whole request waits for its answer, and the peer reads."""
        return bool(self._unanswered) and not (self._unanswered[0].more_body or self.flow.write_paused)

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.parser = _Parser(self)
        self._unanswered: deque[RequestResponseCycle] = deque()
        """Requests whose heads have arrived, in their order; the first is being answered."""
        self.flow = _Turns(transport, self.pipeline)
        self.address = network_of(self.client[0] if self.client else "")
        self._since = self.loop.time()
        if self.registry.admit(self):
            self._await_peer()
        else:
            transport.abort()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.registry.forget(self)
        self._receiving = _cancel(self._receiving)
        self._sending = _cancel(self._sending)
        super().connection_lost(exc)
        # uvicorn tells only the last cycle.
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()

    @override
    def get_buffer(self, sizehint: int) -> bytearray:
        rest_of_body = self._declared_bytes - self._body_bytes
        self._buffer = bytearray(min(max(_READ_BYTES, rest_of_body), _READ_BODY_BYTES))
        return self._buffer

    @override
    def buffer_updated(self, nbytes: int) -> None:
        # Bytes between requests count as well, such as empty lines.
        if self._receiving is None and (self.cycle is None or self.cycle.response_complete):
            self._await_peer()
        self._other_bytes += nbytes
        data, self._buffer = bytes(self._buffer[:nbytes]), bytearray()
        self.data_received(data)
        if self.transport.is_closing():
            return
        if self._discarded_bytes > DISCARDED_BYTES:
            self.transport.abort()
        elif self._other_bytes > MAX_HEAD_BYTES + self._body_bytes:
            self._refuse()

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._declared_bytes = 0
        self._body_bytes = 0
        self._discarded_bytes = 0
        if self._receiving is None:
            self._await_peer()

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)
            # The parser refuses numbers above 64 bits.
            if name.lower() == b"content-length" and value.isdigit():
                self._declared_bytes = int(value)

    def begin_again(self, rest: bytes) -> None:
        """Parse the request at hand without its header `upgrade`, which a server may ignore, and what follows it.

        Raises:
            HttpParserError: It asks for a tunnel.
        """
        method = self.parser.get_method()
        if method == b"CONNECT":
            raise HttpParserError("there are no tunnels")
        head = [b"%b %b HTTP/%b\r\n" % (method, self.url, self.parser.get_http_version().encode())]
        head += [b"%b: %b\r\n" % (name, value) for name, value in self.headers if name != b"upgrade"]
        self.parser = _Parser(self)
        self.parser.feed_data(b"".join([*head, b"\r\n", rest]))

    @override
    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._in_head = False
        self._await_peer()
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not None and self.cycle is not before:
            self._unanswered.append(self.cycle)

    @override
    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._other_bytes -= len(body)
        if self.cycle.response_complete:
            self._discarded_bytes += len(body)
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._other_bytes = 0
        self._receiving = _cancel(self._receiving)
        super().on_message_complete()

    @override
    def on_response_complete(self) -> None:
        self._answered = True
        self._unanswered.popleft()
        self._since = self.loop.time()
        self._await_reader()
        super().on_response_complete()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        _cancel(self._sending)
        self._sending = self.loop.call_later(self.limits.send_seconds, self.transport.abort)

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._sending = _cancel(self._sending)
        self._await_reader()

    def _await_peer(self) -> None:
        """Give the peer time for the next part of its request."""
        _cancel(self._receiving)
        self._receiving = self.loop.call_later(self.limits.receive_seconds, self._end_late)

    def _await_reader(self) -> None:
        """Give the peer time for the rest of an answer that has been written."""
        if self._sending is None and self.transport.get_write_buffer_size():
            self._sending = self.loop.call_later(self.limits.send_seconds, self._end_unread)

    def _end_late(self) -> None:
        """End the connection, unless it is not the peer who is late."""
        self._receiving = None
        if self.flow.read_paused:
            self._await_peer()
        elif self.cycle is not None and self.cycle.more_body and not self.cycle.response_started:
            # The reader of the body answers that it is late.
            self._receiving = self.loop.call_later(self.limits.receive_seconds, self.transport.abort)
        else:
            self.transport.abort()

    def _end_unread(self) -> None:
        """End a connection whose last answer is not taken."""
        self._sending = None
        if (self.cycle is None or self.cycle.response_complete) and self.transport.get_write_buffer_size():
            self.transport.abort()

    def _refuse(self) -> None:
        """Answer a head that is too large; where an answer is owed or begun, just end the connection."""
        if self._in_head and (self.cycle is None or self.cycle.response_complete):
            status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            text = f"the head of a request must have at most {MAX_HEAD_BYTES} bytes\n"
            self.transport.write(
                f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: text/plain\r\nconnection: close\r\n"
                f"content-length: {len(text)}\r\n\r\n{text}".encode()
            )
            self.transport.close()
        else:
            self.transport.abort()


def bounded(limits: ConnectionLimits) -> type[BoundedProtocol]:
    """Return the protocol of the connections of one listener."""
    return type("BoundedProtocol", (BoundedProtocol,), {"limits": limits, "registry": Connections(limits)})


def _cancel(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer, if there is one; return that there is none."""
    if timer is not None:
        timer.cancel()
    return None
