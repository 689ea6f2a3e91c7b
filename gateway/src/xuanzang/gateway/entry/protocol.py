"""HTTP/1.1 connections, with limits on the head of a request."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MAX_HEAD_BYTES = 64 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections on which the head of a request is too slow or too large, or does not come at all."""

    head_seconds: ClassVar[float] = 10.0
    """Maximum seconds for the head of a request; of the first one, from the connection's beginning."""

    _timer: asyncio.TimerHandle | None = None
    _head_bytes = 0

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._begin_head()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._timer is None:
            self._begin_head()

    @override
    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._timer is None:
            self._head_bytes = 0
        elif self._head_bytes > _MAX_HEAD_BYTES:
            self.transport.close()

    @override
    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def _begin_head(self) -> None:
        self._timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _end_head(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def bounded(seconds: float) -> type[BoundedProtocol]:
    """Return the protocol with another limit.

    Args:
        seconds: Maximum seconds for the head of a request.
    """
    return type("BoundedProtocol", (BoundedProtocol,), {"head_seconds": seconds})
