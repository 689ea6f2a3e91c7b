"""What happens around every RPC: counting, logging, errors to statuses, the gate. None of it sees user text.

An interceptor is given the RPC's handler in one of four shapes. Here all of them become one `Behaviour`: it takes the
request, or the iterator of requests, and returns the response, or None if it wrote its responses to the context.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from abc import abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import grpc
from google.protobuf.message import DecodeError
from prometheus_client import Counter

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.metrics import Metrics
from xuanzang.server.rpc import errors
from xuanzang.server.rpc.gate import RpcGate
from xuanzang.server.rpc.health import TRANSLATION_SERVICE
from xuanzang.translation.v1 import translation_pb2

if TYPE_CHECKING:
    # gRPC's classes take parameters only in its type stubs.
    Context = grpc.aio.ServicerContext[Any, Any]
    Handler = grpc.RpcMethodHandler[Any, Any]
    Behaviour = Callable[[Any, Context], Awaitable[Any]]
    Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]

_LOGGER = logging.getLogger(__name__)


class Rpc(NamedTuple):
    """Which RPC a handler serves; the labels that every `grpc_server_*` metric has."""

    grpc_type: str
    """Shape: "unary", "client_stream", "server_stream" or "bidi_stream"."""
    grpc_service: str
    """Full name."""
    grpc_method: str


class Interceptor(grpc.aio.ServerInterceptor):
    """Runs around each RPC, whatever the shape of its handler."""

    def __init__(self) -> None:
        # gRPC asks at every RPC, and the handler of a method is always the same.
        self._wrapped: dict[str, Handler] = {}

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """Wrap the handler that the interceptors further in have made."""
        name = handler_call_details.method
        if name not in self._wrapped:
            handler = await continuation(handler_call_details)
            if handler is None:
                return None
            _, service, method = name.split("/")
            grpc_type = _TYPES[handler.request_streaming, handler.response_streaming]
            self._wrapped[name] = self.wrap(handler, Rpc(grpc_type, service, method))
        return self._wrapped[name]

    @abstractmethod
    def wrap(self, handler: Handler, rpc: Rpc) -> Handler:
        """Make a handler that runs the given one.

        Args:
            handler: To be run inside.
            rpc: That it serves.

        Returns:
            The handler to use instead.
        """


class TelemetryInterceptor(Interceptor):
    """Counts, times and logs each RPC with the status that it ended with."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__()
        self._metrics = metrics
        for method in translation_pb2.DESCRIPTOR.services_by_name["TranslationService"].methods:
            grpc_type = _TYPES[method.client_streaming, method.server_streaming]
            metrics.register_rpc(
                grpc_type=grpc_type, grpc_service=method.containing_service.full_name, grpc_method=method.name
            )

    def wrap(self, handler: Handler, rpc: Rpc) -> Handler:
        """Observe what the handler does."""
        behaviour = _behaviour(handler)
        begun = self._metrics.grpc_server_started.labels(*rpc)
        received = self._metrics.grpc_server_msg_received.labels(*rpc)
        sent = self._metrics.grpc_server_msg_sent.labels(*rpc)
        duration = self._metrics.grpc_server_handling_seconds.labels(*rpc)

        async def observed(request: Any, context: Context) -> Any:
            begun.inc()
            started = time.perf_counter()
            timeout = context.time_remaining()
            code = grpc.StatusCode.UNKNOWN
            try:
                if handler.request_streaming:
                    request = _counted(request, received)
                else:
                    received.inc()
                if handler.response_streaming:
                    response = await behaviour(request, cast("Context", _CountedContext(context, sent)))
                else:
                    response = await behaviour(request, context)
                    sent.inc()
                code = context.code() or grpc.StatusCode.OK
            except grpc.aio.AbortError:
                code = context.code()
                raise
            except (asyncio.CancelledError, grpc.aio.InternalError):
                # Told that the caller is gone, or found it out by trying to answer.
                code = _code_of_cancellation(context, timeout)
                raise
            finally:
                seconds = time.perf_counter() - started
                duration.observe(seconds)
                self._metrics.grpc_server_handled.labels(*rpc, code.name).inc()
                _log(rpc, code, seconds)
            return response

        return _replaced(handler, observed)


class ErrorInterceptor(Interceptor):
    """Turns errors into statuses with details; a message that is no valid protobuf is the caller's error, too."""

    def wrap(self, handler: Handler, rpc: Rpc) -> Handler:
        """Catch what the handler raises."""
        behaviour = _behaviour(handler)
        decode = handler.request_deserializer or bytes

        def decoded(message: bytes) -> Any:
            try:
                return decode(message)
            except DecodeError as error:
                fault = FieldViolation(field="request", description=f"must be a valid message of {rpc.grpc_method}")
                raise InvalidInputError([fault]) from error

        async def guarded(request: Any, context: Context) -> Any:
            try:
                if handler.request_streaming:
                    messages = (decoded(message) async for message in request)
                    return await behaviour(messages, context)
                return await behaviour(decoded(request), context)
            except grpc.aio.AbortError:
                raise
            except Exception as error:  # noqa: BLE001 - the one place where any error becomes a status
                await errors.abort(context, errors.status_of(error))

        return _replaced(handler, guarded, request_deserializer=None)


class GateInterceptor(Interceptor):
    """Sends each RPC of the translation service through the gate; health and reflection always answer."""

    def __init__(self, gate: RpcGate) -> None:
        super().__init__()
        self._gate = gate

    def wrap(self, handler: Handler, rpc: Rpc) -> Handler:
        """Run the handler only if the gate admits its RPC."""
        if rpc.grpc_service != TRANSLATION_SERVICE:
            return handler
        behaviour = _behaviour(handler)

        async def admitted(request: Any, context: Context) -> Any:
            await self._gate.enter(context)
            return await behaviour(request, context)

        return _replaced(handler, admitted)


class _CountedContext:
    """A servicer context that counts the messages written to it."""

    def __init__(self, context: Context, sent: Counter) -> None:
        self._context = context
        self._sent = sent

    async def write(self, message: Any) -> None:
        await self._context.write(message)
        self._sent.inc()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _log(rpc: Rpc, code: grpc.StatusCode, seconds: float) -> None:
    # Success is counted, and lines of it take a fifth of the event loop's time. Health is asked every few seconds.
    is_news = rpc.grpc_service == TRANSLATION_SERVICE and code is not grpc.StatusCode.OK
    level = logging.INFO if is_news else logging.DEBUG
    facts = {"method": f"{rpc.grpc_service}/{rpc.grpc_method}", "code": code.name, "seconds": round(seconds, 6)}
    _LOGGER.log(level, "rpc", extra=facts)


async def _counted(requests: AsyncIterable[Any], received: Counter) -> AsyncIterator[Any]:
    async for request in requests:
        received.inc()
        yield request


def _code_of_cancellation(context: Context, timeout: float | None) -> grpc.StatusCode:
    # gRPC cancels the handler's task both when the caller gives up and when the deadline passes. The caller's clock
    # runs out first: timeouts are rounded up, by at most 1 %, to be sent, and ours began later.
    expired = timeout is not None and context.time_remaining() <= 0.01 * timeout + 0.02
    return grpc.StatusCode.DEADLINE_EXCEEDED if expired else grpc.StatusCode.CANCELLED


def _behaviour(handler: Handler) -> Behaviour:
    behaviour: Behaviour = getattr(handler, _shape(handler))
    if not inspect.isasyncgenfunction(behaviour):
        return behaviour

    async def written(request: Any, context: Context) -> None:
        async with aclosing(behaviour(request, context)) as responses:
            async for response in responses:
                await context.write(response)

    return written


def _replaced(handler: Handler, behaviour: Behaviour, **changes: Any) -> Handler:
    make = getattr(grpc, f"{_shape(handler)}_rpc_method_handler")
    coders = {name: getattr(handler, name) for name in ("request_deserializer", "response_serializer")}
    replaced: Handler = make(behaviour, **(coders | changes))
    return replaced


def _shape(handler: Handler) -> str:
    return "_".join("stream" if side else "unary" for side in (handler.request_streaming, handler.response_streaming))


_TYPES: Final = {
    (False, False): "unary",
    (True, False): "client_stream",
    (False, True): "server_stream",
    (True, True): "bidi_stream",
}
