"""The way of an RPC through a listener: identify, refuse unread, receive, decode, admit, call, answer, count."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from xuanzang.server.access.authentication import Authenticator
from xuanzang.server.access.errors import QuotaExceededError, UnauthenticatedError
from xuanzang.server.engine.errors import (
    DrainingError,
    FieldViolation,
    InvalidInputError,
    ModelOverloadedError,
    OverloadedError,
)
from xuanzang.server.metrics import Metrics, RpcMetrics
from xuanzang.server.observation.observation import Observation
from xuanzang.server.observation.rpc_log import Reason, RpcLog
from xuanzang.server.rpc import errors
from xuanzang.server.rpc.admission import RpcGate, Screen
from xuanzang.server.rpc.context import CLIENT_ID, REQUEST_ID, RpcContext, ServicerContext, chosen_id, identify
from xuanzang.server.rpc.grpc_private import Accepted
from xuanzang.server.rpc.methods import Method, Service
from xuanzang.server.time_limits import TimeLimit, TimeLimits

# RPCs that are refused unread are counted together, after this time.
_UNREAD_SECONDS = 0.1

_Unread = tuple[str, grpc.StatusCode, Reason]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Route:
    """A method, and what is found once for all its RPCs. The event loop alone counts in its series."""

    method: Method
    series: RpcMetrics
    handled: Callable[[grpc.StatusCode], Any]
    """Counter of the RPCs that ended with a status."""
    log_text: Callable[..., None]
    """Logs the end of a single text of a stream."""


class Entry:
    """Takes every RPC of a listener, whatever its method, from its arrival to its status."""

    def __init__(
        self,
        metrics: Metrics,
        *,
        idle_seconds: float,
        authenticator: Authenticator | None = None,
        gate: RpcGate | None = None,
        screen: Screen | None = None,
        observation: Observation | None = None,
    ) -> None:
        """Make an entry without methods; an RPC that owes no answer waits `idle_seconds` for a message.

        Without `authenticator` everybody may call, without `gate` nothing translates, without `screen` all RPCs are
        read, and without `observation` they have only ids.
        """
        self._metrics, self._idle_seconds = metrics, idle_seconds
        self._authenticator, self._gate, self._screen = authenticator, gate, screen
        self._observation = observation or Observation()
        self._log, self._text_log = RpcLog(), RpcLog("text")
        # Of unary RPCs until their messages have come.
        self._time_limits = TimeLimits()
        self._routes: dict[str, _Route] = {}
        self._unread: Counter[_Unread] = Counter()
        self._unread_ids: dict[_Unread, str] = {}

    def add(self, service: Service) -> None:
        """Serve a service."""
        for method in service.methods():
            labels = method.labels
            if method.name in service.answered:
                self._metrics.register_rpc(labels)
            # Finding a series by its labels takes as long as counting, so it is done once for each status.
            handled = cache(partial(_series_of, self._metrics, labels))
            log_text = partial(self._text_log.write, method.path)
            series = self._metrics.of_rpc(labels)
            self._routes[method.path] = _Route(method=method, series=series, handled=handled, log_text=log_text)

    def begin(self, path: str, context: ServicerContext) -> errors.Refusal | Accepted:
        """Identify the caller of an RPC that has just arrived, and refuse it unread or say what handles it."""
        try:
            route = self._routes[path]
            rpc = identify(context, None if route.method.is_open else self._authenticator)
            if route.method.is_screened and self._screen is not None and rpc.refusal is None:
                refusal = self._screen.refusal(rpc)
                if refusal is not None:
                    self._count_unread(path, refusal, rpc)
                    return refusal
        except Exception as error:  # noqa: BLE001 - an error here would end the listener, for all callers
            refusal = errors.refusal_of(error)._replace(trailers=())
            self._count_unread(path, refusal)
            return refusal
        return Accepted(partial(self._handle, route, rpc), route.method.encode, sends_stream=route.method.sends_stream)

    async def _handle(self, route: _Route, rpc: RpcContext, messages: AsyncIterator[bytes], context: Any) -> Any:
        """Take an RPC from its first message to its status."""
        method, began = route.method, time.perf_counter()
        answer, code, status, reason = None, grpc.StatusCode.UNKNOWN, None, None
        rpc.grpc, rpc.sent, rpc.log_text = context, route.series.msg_sent, route.log_text
        route.series.started.value += 1
        if method.is_gated:
            self._observe(rpc, method)
        try:
            answer = await self._answer(route, rpc, messages)
            code = context.code() or grpc.StatusCode.OK
            if not method.sends_stream:
                route.series.msg_sent.value += 1
        except grpc.aio.AbortError:
            code = context.code()
            raise
        except (asyncio.CancelledError, grpc.aio.InternalError):
            # The caller is gone: gRPC cancelled the task, or an answer could not be written.
            code = grpc.StatusCode.DEADLINE_EXCEEDED if rpc.has_expired else grpc.StatusCode.CANCELLED
            raise
        except Exception as error:  # noqa: BLE001 - the one place where any error becomes a status
            status = errors.status_of(error, request_id=rpc.request_id)
            code, reason = errors.code_of(status), errors.reason_of(error)
            # Its traceback would hold the frames of the RPC, and these the error.
            rpc.refusal = None
        finally:
            self._count(route, rpc, code, time.perf_counter() - began, reason)
        if status is not None:
            # Outside of the handling of the error, which would hold the frames of the RPC.
            await errors.end(context, status, trailers=rpc.id_trailers)
        elif trailers := rpc.trailers:
            context.set_trailing_metadata(trailers)
        return answer

    async def _answer(self, route: _Route, rpc: RpcContext, messages: AsyncIterator[bytes]) -> Any:
        """Refuse, receive, decode, admit, call."""
        method, gate, screen = route.method, self._gate, self._screen
        if rpc.refusal is not None:
            # Nothing is received from a caller who may not call.
            if isinstance(rpc.refusal, UnauthenticatedError):
                rpc.refusal.count()
            raise rpc.refusal
        if method.receives_stream:
            request: Any = self._incoming(route, rpc, messages)
        else:
            request = _decoded(method, await self._only_message(rpc))
            route.series.msg_received.value += 1
        try:
            if gate is not None and method.is_gated:
                await gate.enter(rpc, is_stream=method.receives_stream)
            answer = await method.function(request, rpc)
        except OverloadedError as error:
            if screen is not None and _tells_of_others(error):
                screen.learn_refusal(rpc, error)
            raise
        else:
            if screen is not None and method.is_gated:
                screen.learn_answer(rpc)
            return answer
        finally:
            if method.receives_stream:
                await request.aclose()

    async def _incoming(
        self, route: _Route, rpc: RpcContext, messages: AsyncIterator[bytes]
    ) -> AsyncGenerator[Any, None]:
        """Yield the messages of a stream, until it is idle for too long or the gate closes."""
        method = route.method
        closed = asyncio.ensure_future(self._gate.closed.wait()) if method.is_gated and self._gate else None
        # Not cancelled at each look at the clock: gRPC's iterator would end.
        reading = asyncio.ensure_future(anext(messages, grpc.aio.EOF))
        try:
            while True:
                while not reading.done():
                    waiting = (reading,) if closed is None else (reading, closed)
                    timeout = self._idle_seconds if rpc.owed else self._idle_left(rpc)
                    await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                    if closed is not None and closed.done() and not reading.done():
                        raise DrainingError("the server is stopping; texts without an answer were not translated")
                    if not reading.done() and not rpc.owed and self._idle_left(rpc) <= 0:
                        raise _idle(self._idle_seconds)
                message: Any = reading.result()
                if message is grpc.aio.EOF:
                    return
                rpc.owed += 1
                rpc.active_at = time.monotonic()
                route.series.msg_received.value += 1
                yield _decoded(method, message)
                reading = asyncio.ensure_future(anext(messages, grpc.aio.EOF))
        except grpc.aio.InternalError:
            raise _ended_by_grpc() from None
        finally:
            reading.cancel()
            if closed is not None:
                closed.cancel()

    def _idle_left(self, rpc: RpcContext) -> float:
        return max(0.0, rpc.active_at + self._idle_seconds - time.monotonic())

    async def _only_message(self, rpc: RpcContext) -> bytes:
        """Receive the message of a unary RPC.

        Raises:
            InvalidInputError: The caller sent none.
            IdleRpcError: It did not come in time.
        """
        try:
            with TimeLimit(self._time_limits, rpc.active_at + self._idle_seconds):
                message: Any = await rpc.grpc.read()
        except TimeoutError:
            raise _idle(self._idle_seconds) from None
        except grpc.aio.InternalError:
            raise _ended_by_grpc() from None
        if message is grpc.aio.EOF:
            raise InvalidInputError([FieldViolation(field="request", description="must be sent")])
        data: bytes = message
        return data

    def _observe(self, rpc: RpcContext, method: Method) -> None:
        rpc.request_id = chosen_id(rpc.metadata)
        if not self._observation.observes:
            return
        rpc.record = self._observation.begin(
            service=method.service,
            method=method.logged_name,
            request_id=rpc.request_id,
            metadata=rpc.metadata,
            caller=None if rpc.refusal else rpc.caller,
            peer=rpc.peer,
            has_client_id=CLIENT_ID in rpc.metadata,
        )

    def _count(
        self, route: _Route, rpc: RpcContext, code: grpc.StatusCode, seconds: float, reason: Reason | None
    ) -> None:
        """Count and log an RPC that has ended, and hand on its record."""
        method, record = route.method, rpc.record
        route.series.handling_seconds.observe(seconds, None if record is None else record.exemplar)
        route.handled(code).value += 1
        if code is not grpc.StatusCode.OK or self._log.has_successes:
            self._log.write(
                method.path, code.name, seconds, is_check=method.is_open, request_id=rpc.request_id, reason=reason
            )
        if record is not None:
            record.reason, record.fields = reason or (None, ())
            self._observation.end(record, code.name, code.value[0], seconds)

    def _count_unread(self, path: str, refusal: errors.Refusal, rpc: RpcContext | None = None) -> None:
        if not self._unread:
            asyncio.get_running_loop().call_later(_UNREAD_SECONDS, self._publish_unread)
        key = path, refusal.code, refusal.reason
        if key not in self._unread and rpc is not None and REQUEST_ID in rpc.metadata:
            self._unread_ids[key] = chosen_id(rpc.metadata)
        self._unread[key] += 1

    def _publish_unread(self) -> None:
        for key, number in self._unread.items():
            path, code, reason = key
            route = self._routes[path]
            route.series.started.value += number
            route.handled(code).value += number
            for _ in range(number):
                # One has the id that its caller chose.
                request_id = self._unread_ids.pop(key, None)
                self._log.write(
                    path, code.name, 0.0, is_check=route.method.is_open, request_id=request_id, reason=reason
                )
            self._observation.end_unread(route.method.logged_name, code.name, number, reason=reason.word)
        self._unread.clear()


def _series_of(metrics: Metrics, labels: tuple[str, str, str], code: grpc.StatusCode) -> Any:
    return metrics.grpc_server_handled.labels(*labels, code.name)


def _tells_of_others(error: OverloadedError) -> bool:
    """Return whether the next RPC would be refused as well."""
    # A quota says nothing of it, which may be smaller, nor places, which may be free, nor a model's limits of others.
    return error.reason != "places" and not isinstance(error, QuotaExceededError | ModelOverloadedError)


def _decoded(method: Method, data: bytes) -> Any:
    """Decode a message.

    Raises:
        InvalidInputError: It is not one of the method's.
    """
    try:
        return method.decode(data)
    except DecodeError as error:
        fault = FieldViolation(field="request", description=f"must be a valid message of {method.name}")
        raise InvalidInputError([fault]) from error


def _idle(seconds: float) -> errors.IdleRpcError:
    return errors.IdleRpcError(f"the caller sent no message for {seconds:g} seconds")


def _ended_by_grpc() -> asyncio.CancelledError:
    """Return what ends the task of an RPC that has its status: the caller hung up, or sent what is no message."""
    return asyncio.CancelledError("gRPC has ended the call")
