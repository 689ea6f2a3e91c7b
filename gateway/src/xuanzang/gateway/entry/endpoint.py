"""Endpoint: one handler of an API behind the limits, with its errors in the form of the API."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from xuanzang.client import AsyncTranslationClient, TranslationError
from xuanzang.gateway.entry.bodies import HungUpError, read_body
from xuanzang.gateway.entry.callers import REQUEST_ID, Callers, key_in, request_id_of
from xuanzang.gateway.entry.origins import listed_origins, require_known_origin
from xuanzang.gateway.entry.parameters import Parameters, read_parameters
from xuanzang.gateway.errors import Fault, RefusedError, fault_of
from xuanzang.gateway.metrics import Metrics
from xuanzang.gateway.settings import Settings

_LOGGER = logging.getLogger(__name__)
# Answers that may come before the body has: otherwise its rest, however slow, would hold the connection.
_BODY_LEFT = frozenset(
    {
        HTTPStatus.FORBIDDEN,
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.SERVICE_UNAVAILABLE,
    }
)
_OVERLOADED = Fault(
    status=HTTPStatus.SERVICE_UNAVAILABLE, message="the gateway has too many requests in progress", retry_after=1.0
)
_FAILED = Fault(status=HTTPStatus.INTERNAL_SERVER_ERROR, message="the gateway failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that has arrived whole."""

    parameters: Parameters
    """Parameters of address and body; without those of the body where the handler reads JSON itself."""
    body: bytes
    """Body."""
    headers: Headers
    """Headers."""
    method: str
    """Method of HTTP."""
    path: Mapping[str, str]
    """Variable parts of the address, by name."""
    id: str
    """Id, by which caller and operator speak of it."""
    peer: str
    """Network address of the caller."""
    client: AsyncTranslationClient
    """Client that calls the server with the caller's key."""


Handler = Callable[[Request], Awaitable[Response]]
"""Function that answers a request; it raises RefusedError or TranslationError."""


@dataclass(slots=True, kw_only=True)
class Entrance:
    """What all endpoints share."""

    settings: Settings
    callers: Callers
    metrics: Metrics = field(default_factory=Metrics)
    in_progress: int = 0
    """Requests in progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """Ways of one API."""

    name: str = "other"
    """Name in metrics."""
    render: Callable[[Fault], Response]
    """Function that gives a fault the API's form."""
    key_parameter: str | None = None
    """Parameter that may hold the API key; None: only the header does."""
    reads_parameters: bool = True
    """Whether bodies are forms or JSON objects of parameters; otherwise handlers read them."""
    takes_documents: bool = False
    """Whether bodies are documents, which have a limit of their own."""


class Endpoint:
    """ASGI application for one address of an API."""

    def __init__(self, handler: Handler, face: Face, entrance: Entrance) -> None:
        """Put a handler behind the limits.

        Args:
            handler: Function that answers.
            face: Its API.
            entrance: What all endpoints share.
        """
        self._handler = handler
        self._face = face
        self._entrance = entrance
        self._origins = listed_origins(entrance.settings.cors_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request and log it.

        Args:
            scope: ASGI's facts of the connection.
            receive: ASGI's function.
            send: ASGI's function.
        """
        began = time.monotonic()
        headers = Headers(scope=scope)
        request_id = request_id_of(headers)
        facts = {"method": scope["method"], "path": scope["path"], "request_id": request_id}
        try:
            facts["status"] = await self._answered(scope, receive, send, headers, request_id)
        except HungUpError:
            facts["status"] = "hung_up"
        finally:
            seconds = time.monotonic() - began
            facts["seconds"] = round(seconds, 4)
            self._entrance.metrics.answered(self._face.name, str(facts.get("status", "hung_up")), seconds=seconds)
            _LOGGER.info("request", extra=facts)

    async def _answered(self, scope: Scope, receive: Receive, send: Send, headers: Headers, request_id: str) -> int:
        """Answer, and return the status."""
        entrance = self._entrance
        if entrance.in_progress >= entrance.settings.max_concurrent_requests:
            return await _send(self._face.render(_OVERLOADED), scope, receive, send, request_id)
        entrance.in_progress += 1
        try:
            response = await self._response(scope, receive, headers, request_id)
            return await _send(response, scope, receive, send, request_id)
        finally:
            entrance.in_progress -= 1

    async def _response(self, scope: Scope, receive: Receive, headers: Headers, request_id: str) -> Response:
        try:
            request = await self._read(scope, receive, headers, request_id)
            return await _unless_hung_up(self._handler(request), receive)
        except RefusedError as error:
            return self._face.render(error.fault)
        except TranslationError as error:
            return self._face.render(fault_of(error))
        except HungUpError:
            raise
        except Exception as error:  # noqa: BLE001 - the one place where nothing else is left to do
            # Without the error's message, which may quote the caller's text.
            facts = {"type": type(error).__name__, "where": traceback.format_tb(error.__traceback__)}
            _LOGGER.error("a handler failed", extra={**facts, "request_id": request_id})  # noqa: TRY400 - as above
            return self._face.render(_FAILED)

    async def _read(self, scope: Scope, receive: Receive, headers: Headers, request_id: str) -> Request:
        settings, face = self._entrance.settings, self._face
        require_known_origin(headers, self._origins)
        seconds = settings.receive_timeout_seconds
        max_bytes = settings.max_document_bytes if face.takes_documents else settings.max_body_bytes
        body = await read_body(headers, receive, max_bytes=max_bytes, seconds=seconds)
        query = scope["query_string"]
        read = body if face.reads_parameters else b""
        parameters = await read_parameters(query=query, headers=headers, body=read)
        key = key_in(headers)
        if key is None and face.key_parameter:
            key = parameters.text(face.key_parameter)
        peer = scope["client"][0] if scope["client"] else ""
        client = self._entrance.callers.client_of(key, peer=peer, request_id=request_id)
        return Request(
            parameters=parameters,
            body=body,
            headers=headers,
            method=scope["method"],
            path=scope["path_params"],
            id=request_id,
            peer=peer,
            client=client,
        )


async def _unless_hung_up(work: Awaitable[Response], receive: Receive) -> Response:
    """Wait for an answer, or cancel the work when the caller hangs up."""
    working = asyncio.ensure_future(work)
    listening = asyncio.ensure_future(receive())
    try:
        await asyncio.wait((working, listening), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise HungUpError
        return working.result()
    finally:
        listening.cancel()
        if not working.done():
            working.cancel()
            with suppress(asyncio.CancelledError, TranslationError):
                await working


async def _send(response: Response, scope: Scope, receive: Receive, send: Send, request_id: str) -> int:
    response.headers[REQUEST_ID] = request_id
    if response.status_code in _BODY_LEFT:
        response.headers["connection"] = "close"
    await response(scope, receive, send)
    return response.status_code
