"""Bodies of requests and answers: within limits of size, time and memory, and never left in the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xuanzang.gateway.entry.connections import DISCARDED_BYTES
from xuanzang.gateway.entry.patience import HungUpError
from xuanzang.gateway.errors import Fault, RefusedError
from xuanzang.gateway.limits import Holder, SharedLimit

UNPROVED_BYTES = 64 * 1024
"""Largest part of a body that is read before the caller's key is checked."""
_PIECE_BYTES = 64 * 1024
_SHOWN_CHARACTERS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """Limits of one body."""

    size: int
    """Maximum size in bytes."""
    seconds: float
    """Maximum time until it is whole."""
    unproved: int = UNPROVED_BYTES
    """Largest part of it that is read before the caller is approved."""


@dataclass(slots=True, kw_only=True)
class ByteQuota:
    """Quota of bytes for the body of one request."""

    places: SharedLimit
    """A place for each byte."""
    holder: Holder
    """The caller who holds it."""
    size: int = 0
    """Bytes taken."""

    def take(self, size: int) -> None:
        """Take bytes.

        Raises:
            RefusedError: There are too few.
        """
        self.places.take(self.holder, size)
        self.size += size

    def release(self) -> None:
        """Give all bytes back."""
        self.places.release(self.holder, self.size)
        self.size = 0


async def read_body(
    headers: Headers, receive: Receive, *, limits: BodyLimits, memory: ByteQuota, approve: Callable[[], Awaitable[None]]
) -> bytes:
    """Read a body.

    Args:
        approve: Function called once for a large body; it raises RefusedError if the caller's are not read.

    Raises:
        RefusedError: The body is compressed, too large or too slow, the caller is not approved, or there is no memory.
        HungUpError: The caller has gone.
    """
    if (encoding := headers.get("content-encoding", "identity").strip().lower()) not in {"", "identity"}:
        message = f"the body must not be encoded, as its content-encoding says: {encoding[:_SHOWN_CHARACTERS]}"
        raise RefusedError(Fault(status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message=message))
    declared = declared_size(headers)
    if declared > limits.size:
        raise _too_large(limits.size)
    awaits_approval = declared <= limits.unproved
    if not awaits_approval:
        await approve()
    body = bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            is_whole = False
            while not is_whole:
                piece, is_whole = await _piece(receive)
                if len(body) + len(piece) > limits.size:
                    raise _too_large(limits.size)
                if awaits_approval and len(body) + len(piece) > limits.unproved:
                    await approve()
                    awaits_approval = False
                if piece:
                    memory.take(len(piece))
                    body += piece
    except TimeoutError as error:
        message = f"the body did not arrive within {limits.seconds:g} seconds"
        raise RefusedError(Fault(status=HTTPStatus.REQUEST_TIMEOUT, message=message)) from error
    return bytes(body)


async def _piece(receive: Receive) -> tuple[bytes, bool]:
    """Return the next piece of a body, and whether it is the last."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise HungUpError
    return message.get("body", b""), not message.get("more_body")


def declared_size(headers: Headers) -> int:
    """Return the size of a body that its head tells, or 0."""
    length = headers.get("content-length", "0")
    return int(length) if length.isdecimal() and len(length) < 20 else 0


class WholeBodies:
    """ASGI application around another: large unread bodies end their connections, answers are sent in pieces."""

    def __init__(self, app: ASGIApp) -> None:
        """Stand around an application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an exchange on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        is_left = "expect" in headers or declared_size(headers) > DISCARDED_BYTES

        async def receiving() -> Message:
            nonlocal is_left
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                is_left = False
            return message

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and is_left:
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            if message["type"] != "http.response.body":
                await send(message)
                return
            # Each piece waits until the caller has taken most of the one before.
            body, more = message.get("body", b""), message.get("more_body", False)
            for start in range(0, max(1, len(body)), _PIECE_BYTES):
                end = start + _PIECE_BYTES
                await send({**message, "body": body[start:end], "more_body": more or end < len(body)})

        await self._app(scope, receiving, sending)


def _too_large(max_bytes: int) -> RefusedError:
    message = f"the body must have at most {max_bytes} bytes"
    return RefusedError(Fault(status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message=message))
