"""Endpoint: one handler of an API behind the limits, with its errors in the form of the API."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import traceback
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import nsmallest
from http import HTTPStatus
from typing import Any, Final, Self, TypeVar

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from xuanzang.client import AsyncTranslationClient, TranslationError
from xuanzang.gateway.entry.bodies import UNPROVED_BYTES, BodyLimits, ByteQuota, read_body
from xuanzang.gateway.entry.callers import REQUEST_ID, Caller, Callers, key_in, request_id_of
from xuanzang.gateway.entry.origins import listed_origins, require_known_origin
from xuanzang.gateway.entry.parameters import Parameters, read_parameters
from xuanzang.gateway.entry.patience import Health, HungUpError, deadline_in, seconds_until, within
from xuanzang.gateway.entry.reading import ReadingThread
from xuanzang.gateway.errors import Fault, RefusedError, fault_of
from xuanzang.gateway.limits import SharedLimit, SharedLimits
from xuanzang.gateway.metrics import Metrics
from xuanzang.gateway.settings import Settings
from xuanzang.serving.fair_start import FairStart
from xuanzang.serving.memory import end_without_memory, is_want_of_memory
from xuanzang.serving.networks import network_of

Result = TypeVar("Result")
_LOGGER = logging.getLogger(__name__)
IGNORED = "x-ignored-parameters"
"""Header of an answer: names of parameters that had no effect."""
_NAME = re.compile(r"[A-Za-z0-9_.\[\]-]{1,64}")
_SHOWN_NAMES = 16
REFUSAL_SECONDS: Final = 0.005
"""Pause of an address after each refused request while others call."""
_FAILED = Fault(status=HTTPStatus.INTERNAL_SERVER_ERROR, message="the gateway failed")
_NO_MEMORY = Fault(
    status=HTTPStatus.SERVICE_UNAVAILABLE, message="the gateway has no memory now", reason="memory", retry_after=1.0
)


def fault_of_failure(error: Exception, *, request_id: str) -> Fault:
    """Log an error that no handler expects, and return what its caller is told."""
    end_without_memory()
    # Without the error's message, which may quote the caller's text.
    facts = {"type": type(error).__name__, "where": traceback.format_tb(error.__traceback__)}
    _LOGGER.error("a handler failed", extra={**facts, "request_id": request_id})
    return _NO_MEMORY if is_want_of_memory(error) else _FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseCall:
    """A call over HTTP or gRPC."""

    id: str
    """Id, which caller and operator can both quote."""
    caller: Caller
    """The caller who sends it."""
    deadline: float
    """Monotonic time of its deadline, which all its calls of the server share."""
    log: dict[str, Any]
    """Members of its log line: words of the gateway and names of models, nothing that the caller chose."""

    @property
    def client(self) -> AsyncTranslationClient:
        """Client that calls the server with the caller's key."""
        return self.caller.client

    @property
    def seconds(self) -> float:
        """Time that is left until the deadline."""
        return seconds_until(self.deadline)

    def limited(self, seconds: float | None) -> Self:
        """Return the same call with less time.

        Args:
            seconds: Time from now on; None: as much as there is.
        """
        return self if seconds is None else replace(self, deadline=min(self.deadline, deadline_in(seconds)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(BaseCall):
    """A request over HTTP that has arrived whole."""

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
    reading: ReadingThread
    """Thread for what grows with the request."""
    ignored: list[str]
    """Names of parameters without an effect, which a header of the answer lists."""

    def ignore_others(self, known: Collection[str]) -> None:
        """Note the parameters that have no effect in an API, for a header of the answer.

        Args:
            known: Names of parameters with an effect.
        """
        self.ignored.extend(nsmallest(_SHOWN_NAMES + 1, self.parameters.names.difference(known)))

    async def apart(self, function: Callable[[], Result], *, more: int = 0) -> Result:
        """Return the result of a function whose time grows with the body, without holding others up.

        Args:
            more: Size of its other input in bytes.

        Raises:
            RefusedError: The function raises it.
        """
        return await self.reading.run(function, size=len(self.body) + more)


Handler = Callable[[Call], Awaitable[Response]]
"""Function that answers a request; it raises RefusedError or TranslationError."""


class SharedState:
    """Parts that all endpoints share."""

    def __init__(self, *, settings: Settings, callers: Callers, health: Health, metrics: Metrics | None = None) -> None:
        """Leave all limits free; the event loop must be running."""
        self.settings = settings
        self.callers = callers
        self.metrics = metrics or Metrics()
        self.limits = SharedLimits(settings)
        self.health = health
        self.reading = ReadingThread()
        self.start = FairStart(asyncio.get_running_loop(), refusal_seconds=REFUSAL_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiStyle:
    """Ways of one API."""

    name: str = "other"
    """Name in metrics."""
    render: Callable[[Fault], Response]
    """Function that gives a fault the API's form."""
    key_parameters: tuple[str, ...] = ()
    """Parameters that may hold the API key; none: only headers do."""
    key_hint: str = "the header authorization: Bearer KEY"
    """Place of the key in this API, which refusals of callers without one name."""
    needs_key: bool = True
    """True if callers without a key are refused where keys are asked for."""
    reads_parameters: bool = True
    """True if bodies are forms or JSON objects of parameters; otherwise handlers read them."""
    reads_elements: bool = False
    """True if bodies may be JSON arrays, too, which are `Parameters.elements`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One of several APIs that have the same address: its requests are told by their parameters."""

    fits: Callable[[Parameters], bool]
    """Function that tells them; it is asked with the parameters of the address before the body is read, and again."""
    handler: Handler
    """Function that answers them."""
    style: ApiStyle
    """Their API."""


@dataclass(slots=True, kw_only=True)
class _Request:
    """A request whose head has arrived."""

    scope: Scope
    headers: Headers
    id: str
    variant: Variant
    """Its API, as far as the parameters tell it."""
    log: dict[str, Any] = field(default_factory=dict)
    """Members of its log line."""
    ignored: list[str] = field(default_factory=list)
    """Names of parameters without an effect."""


def routes_of(
    calls: Iterable[tuple[str, str, Handler]], style: ApiStyle, state: SharedState, **limits: Any
) -> list[Route]:
    """Return the routes of calls.

    Args:
        calls: Methods with spaces between them, or "" for any; address; handler.
        limits: Keyword arguments of `Endpoint`.
    """
    return [
        Route(path, Endpoint(handler, style, state, **limits), methods=methods.split() or None)
        for methods, path, handler in calls
    ]


class Api:
    """Handlers of one API."""

    def __init__(self, state: SharedState) -> None:
        """Make the handlers."""
        self._state = state
        self._max_texts = state.settings.max_texts


class Endpoint:
    """ASGI application for one address of an API."""

    def __init__(
        self,
        handler: Handler,
        style: ApiStyle,
        state: SharedState,
        *,
        limit: SharedLimit | None = None,
        max_bytes: int | None = None,
        seconds: float | None = None,
        variants: Sequence[Variant] = (),
    ) -> None:
        """Put a handler behind the limits.

        Args:
            limit: Limit of its requests; None: that of requests in progress.
            max_bytes: Maximum size of a body; None: that of the settings.
            seconds: Time for an answer; None: that of the settings.
            variants: Other APIs that have the same address; the first that fits a request answers it.
        """
        self._usual = Variant(fits=lambda _: True, handler=handler, style=style)
        self._variants = (*variants, self._usual)
        styles = [each.style for each in self._variants]
        self._takes_elements = any(style.reads_elements for style in styles)
        self._key_parameters = tuple(dict.fromkeys(name for each in styles for name in each.key_parameters))
        self._state = state
        self._limit = limit or state.limits.requests
        settings = state.settings
        self._seconds = settings.request_timeout_seconds if seconds is None else seconds
        self._origins = listed_origins(settings.cors_origins)
        self._limits = BodyLimits(
            size=settings.max_body_bytes if max_bytes is None else max_bytes,
            seconds=settings.receive_timeout_seconds,
            # Of a file nothing is read before.
            unproved=0 if limit is state.limits.uploads else UNPROVED_BYTES,
        )

    def refusing(self, methods: Collection[str]) -> Endpoint:
        """Return what answers the methods that an address does not have, in the form of its API."""

        async def refuse(call: Call) -> Response:
            await asyncio.sleep(0)
            listed = ", ".join(sorted(methods))
            message = f"this call is made with {listed.replace(', ', ' or ')}, not with {call.method}"
            response = self._usual.style.render(Fault(status=HTTPStatus.METHOD_NOT_ALLOWED, message=message))
            response.headers["allow"] = listed
            return response

        style = replace(self._usual.style, needs_key=False, reads_parameters=False)
        return Endpoint(refuse, style, self._state)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request and log it."""
        began = time.monotonic()
        headers = Headers(scope=scope)
        request = _Request(scope=scope, headers=headers, id=request_id_of(headers), variant=self._usual)
        log = request.log
        log |= {"method": scope["method"], "path": scope["path"], "request_id": request.id, "status": "hung_up"}
        try:
            with suppress(HungUpError):
                log["status"] = await self._answered(request, receive, send)
        finally:
            seconds = time.monotonic() - began
            log |= {"api": request.variant.style.name, "seconds": round(seconds, 4)}
            self._state.metrics.answered(log["api"], str(log["status"]), seconds=seconds)
            _LOGGER.info("request", extra=log)

    async def _answered(self, request: _Request, receive: Receive, send: Send) -> int:
        """Answer, and return the status; what the request holds is held until the answer is sent."""
        with ExitStack() as held:
            response = await self._response(request, receive, held)
            response.headers[REQUEST_ID] = request.id
            if request.ignored:
                response.headers[IGNORED] = _listed(request.ignored)
            await response(request.scope, receive, send)
            return response.status_code

    async def _response(self, request: _Request, receive: Receive, held: ExitStack) -> Response:
        try:
            call = await self._read(request, receive, held)
            held.enter_context(self._limit.held(call.caller.holder))
            work = self._handled(request.variant.handler, call)
            return await within(work, deadline=call.deadline, health=self._state.health, hung_up=receive)
        except (RefusedError, TranslationError) as error:
            fault = fault_of(error)
        except HungUpError:
            raise
        except Exception as error:  # noqa: BLE001 - the one place where nothing else is left to do
            fault = fault_of_failure(error, request_id=request.id)
        request.log["reason"] = fault.reason
        response = request.variant.style.render(fault)
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            response.headers["www-authenticate"] = "Bearer"
        return response

    @staticmethod
    async def _handled(handler: Handler, call: Call) -> Response:
        return await handler(call)

    async def _read(self, request: _Request, receive: Receive, held: ExitStack) -> Call:
        """Read a request: who sends it before its body, unless the body says so."""
        scope, headers, callers = request.scope, request.headers, self._state.callers
        require_known_origin(headers, self._origins)
        peer, _ = scope["client"] or ("", 0)
        query, key, is_in_body = scope["query_string"], key_in(headers), False
        if self._key_parameters or len(self._variants) > 1:
            in_address = read_parameters(query=query, headers=headers, body=b"")
            request.variant = self._fitting(in_address)
            key = key or self._key_of(in_address)
            is_in_body = key is None and bool(self._key_parameters)
        style = request.variant.style
        caller_of = partial(
            callers.caller_of, peer=peer, request_id=request.id, needs_key=style.needs_key, hint=style.key_hint
        )
        caller = None if is_in_body else caller_of(key)

        async def approve() -> None:
            if caller is not None:
                await callers.prove(caller, key)

        memory = ByteQuota(places=self._state.limits.body_bytes, holder=callers.holder_of(key, network_of(peer)))
        held.callback(memory.release)
        body = await read_body(headers, receive, limits=self._limits, memory=memory, approve=approve)
        parameters = await self._parameters(query, headers, body if style.reads_parameters else b"")
        request.variant = self._fitting(parameters)
        return Call(
            parameters=parameters,
            body=body,
            headers=headers,
            method=scope["method"],
            path=scope["path_params"],
            id=request.id,
            caller=caller or caller_of(self._key_of(parameters)),
            deadline=deadline_in(self._seconds),
            log=request.log,
            reading=self._state.reading,
            ignored=request.ignored,
        )

    async def _parameters(self, query: bytes, headers: Headers, body: bytes) -> Parameters:
        takes = self._takes_elements
        reads = partial(read_parameters, query=query, headers=headers, body=body, takes_elements=takes)
        return await self._state.reading.run(reads, size=len(body))

    def _fitting(self, parameters: Parameters) -> Variant:
        found = next(each for each in self._variants if each.fits(parameters))
        if parameters.elements is not None and not found.style.reads_elements:
            raise RefusedError(Fault(status=HTTPStatus.BAD_REQUEST, message="the body must be a JSON object"))
        return found

    def _key_of(self, parameters: Parameters) -> str | None:
        return next((key for name in self._key_parameters if (key := parameters.text(name))), None)


def _listed(names: Sequence[str]) -> str:
    """Return the names of ignored parameters for a header: valid names only, and the first of many."""
    shown = [name for name in dict.fromkeys(names) if _NAME.fullmatch(name)][:_SHOWN_NAMES]
    return ", ".join([*shown, *(["..."] if len(shown) < len(set(names)) else [])])
