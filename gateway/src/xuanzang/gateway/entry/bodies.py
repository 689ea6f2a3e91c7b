"""Bodies of requests, within limits of size and time."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import Receive

from xuanzang.gateway.errors import Fault, RefusedError


class HungUpError(Exception):
    """The caller has closed the connection; nobody waits for an answer."""


async def read_body(headers: Headers, receive: Receive, *, max_bytes: int, seconds: float) -> bytes:
    """Read a body.

    Args:
        headers: Headers of the request.
        receive: ASGI's function.
        max_bytes: Maximum size.
        seconds: Maximum seconds until it is whole.

    Raises:
        RefusedError: The body is too large or too slow.
        HungUpError: The caller has gone.
    """
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length) > max_bytes:
        raise _too_large(max_bytes)
    try:
        async with asyncio.timeout(seconds):
            return await _read(receive, max_bytes)
    except TimeoutError as error:
        message = f"the body did not arrive within {seconds:g} seconds"
        raise RefusedError(Fault(status=HTTPStatus.REQUEST_TIMEOUT, message=message)) from error


async def _read(receive: Receive, max_bytes: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HungUpError
        body += message.get("body", b"")
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
        if not message.get("more_body"):
            return bytes(body)


def _too_large(max_bytes: int) -> RefusedError:
    message = f"the body must have at most {max_bytes} bytes"
    return RefusedError(Fault(status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message=message))
