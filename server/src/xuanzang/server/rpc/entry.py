"""The way of an RPC through a listener: identify, refuse unread, receive, decode, admit, call, answer, count."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from xuanzang.server.access.authentication import Authenticator
from xuanzang.server.access.errors import UnauthenticatedError
from xuanzang.server.engine.errors import (
    DrainingError,
    FieldViolation,
    InvalidInputError,
    ModelOverloadedError,
    OverloadedError,
)
from xuanzang.server.engine.threads import CallerThreads
from xuanzang.server.metrics import Metrics
from xuanzang.server.observation.callers import Sender
from xuanzang.server.observation.observation import Observation
from xuanzang.server.observation.rpc_log import Reason, RpcLog
from xuanzang.server.observation.rpc_record import RpcRecord
from xuanzang.server.rpc import errors
from xuanzang.server.rpc.admission import RpcGate, Screen
from xuanzang.server.rpc.context import (
    CLIENT_ID,
    PROCESSES,
    REQUEST_ID,
    RpcContext,
    ServicerContext,
    Trailers,
    chosen_id,
    identify,
)
from xuanzang.server.rpc.grpc_private import Accepted
from xuanzang.server.rpc.limits import SMALL_BYTES
from xuanzang.server.rpc.messages.decoding import decode, identified
from xuanzang.server.rpc.methods import Method, Service
from xuanzang.server.time_limits import TimeLimit, TimeLimits
from xuanzang.serving.memory import is_want_of_memory

# RPCs that are refused unread are counted together, after this time.
_UNREAD_SECONDS = 0.1
# A stream ends with an error after this time: grpc.aio's clients report INTERNAL instead of a status that comes while
# they write, as most do at first.
_WRITING_SECONDS = 0.01

_Unread = tuple[Method, grpc.StatusCode, Reason]


class Entry:
    """Takes every RPC of a listener, whatever its method, from its arrival to its status."""

    def __init__(
        self,
        metrics: Metrics,
        *,
        idle_seconds: float,
        max_waiting: int = 256,
        authenticator: Authenticator | None = None,
        gate: RpcGate | None = None,
        screen: Screen | None = None,
        observation: Observation | None = None,
        offloader: CallerThreads | None = None,
        max_characters: int | None = None,
        processes: int = 1,
    ) -> None:
        """Make an entry without methods; an RPC that owes no answer waits `idle_seconds` for a message.

        Of a network address `max_waiting` unary RPCs wait for their messages; a further one takes the longest's place.
        Without `authenticator` every caller may call, without `gate` nothing translates, without `screen` all RPCs are
        read, without `observation` they have only ids, and without `offloader` no message is large. Texts to translate
        have at most `max_characters`. Answers say how many `processes` share the address, if there are several.
        """
        self._metrics, self._idle_seconds = metrics, idle_seconds
        self._authenticator, self._gate, self._screen = authenticator, gate, screen
        self._observation, self._offloader = observation or Observation(), offloader
        self._max_characters = max_characters
        self._trailers: Trailers = ((PROCESSES, str(processes)),) if processes > 1 else ()
        self._log, self._text_log = RpcLog(), RpcLog("text")
        # Of unary RPCs until their messages have come.
        self._time_limits, self._max_waiting = TimeLimits(), max_waiting
        # The same by network address, the longest first.
        self._waiting: dict[str, dict[TimeLimit, None]] = {}
        self._methods: dict[str, Method] = {}
        self._unread: Counter[_Unread] = Counter()
        self._unread_ids: dict[_Unread, str] = {}

    def add(self, service: Service) -> None:
        """Serve a service."""
        self._methods |= {method.path: method for method in service.methods(self._metrics)}

    def begin(self, path: str, context: ServicerContext, sender: Sender) -> errors.Refusal | Accepted:
        """Identify the caller of an RPC that has just arrived, and refuse it unread or say what handles it."""
        method, rpc, refusal = self._methods[path], None, None
        try:
            rpc = identify(context, sender, None if method.service.is_open else self._authenticator)
            if method.is_screened and self._screen is not None and rpc.refusal is None:
                refusal = self._screen.refusal(rpc)
            if refusal is None:
                return Accepted(self._handle, (method, rpc), method.encode, method.sends_stream)
        except Exception as error:  # noqa: BLE001 - an error here would end the listener, for all callers
            refusal = errors.refusal_of(error)._replace(trailers=())
        self._count_unread(method, refusal, rpc)
        return refusal

    async def _handle(self, arrived: tuple[Method, RpcContext], context: Any) -> Any:
        """Take an RPC from its first message to its status."""
        (method, rpc), began = arrived, time.perf_counter()
        series = method.series
        answer, code, status, reason = None, grpc.StatusCode.UNKNOWN, None, None
        rpc.grpc, rpc.sent, rpc.offloader = context, series.msg_sent, self._offloader
        series.started.value += 1
        if method.service.is_gated:
            rpc.request_id = request_id = chosen_id(rpc.metadata)
            if self._observation.observes:
                rpc.record = self._new_record(rpc, method, request_id)
        try:
            answer = await self._answer(method, rpc)
            code = context.code() or grpc.StatusCode.OK
            if not method.sends_stream:
                series.msg_sent.value += 1
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
            self._count(method, rpc, code, time.perf_counter() - began, reason)
        if status is not None:
            # Outside of the handling of the error, which would hold the frames of the RPC.
            if method.receives_stream:
                await asyncio.sleep(_WRITING_SECONDS)
            await errors.end(context, status, rpc.id_trailers)
        elif trailers := rpc.trailers + self._trailers:
            context.set_trailing_metadata(trailers)
        return answer

    async def _answer(self, method: Method, rpc: RpcContext) -> Any:
        """Refuse, receive, decode, admit, call."""
        gate, screen, is_gated = self._gate, self._screen, method.service.is_gated
        if rpc.refusal is not None:
            # Nothing is received from a caller who may not call.
            if isinstance(rpc.refusal, UnauthenticatedError):
                rpc.refusal.count()
            raise rpc.refusal
        if method.receives_stream:
            rpc.log_text = partial(self._text_log.write, method.path)
            request: Any = self._incoming(method, rpc)
        else:
            request = await self._decoded(method, await self._only_message(rpc), rpc)
            method.series.msg_received.value += 1
        try:
            if gate is not None and is_gated:
                await gate.enter(rpc, is_stream=method.receives_stream)
            answer = await method.function(request, rpc)
        except OverloadedError as error:
            if screen is not None and _tells_of_others(error):
                screen.learn_refusal(rpc, error)
            raise
        else:
            if screen is not None and is_gated:
                screen.learn_answer(rpc)
            return answer
        finally:
            if method.receives_stream:
                await request.aclose()

    async def _incoming(self, method: Method, rpc: RpcContext) -> AsyncGenerator[Any, None]:
        """Yield the messages of a stream, until it is idle for too long or the gate closes."""
        closed = asyncio.ensure_future(self._gate.closed.wait()) if method.service.is_gated and self._gate else None
        # Not cancelled at each look at the clock: its message would be lost.
        reading = asyncio.ensure_future(rpc.grpc.read())
        try:
            while True:
                while not reading.done():
                    waiting = (reading,) if closed is None else (reading, closed)
                    quiet_for = 0.0 if rpc.owed else time.monotonic() - rpc.active_at
                    timeout = self._idle_seconds - quiet_for
                    await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                    if reading.done():
                        break
                    if closed is not None and closed.done():
                        raise DrainingError("the server is stopping; texts without an answer were not translated")
                    if not rpc.owed and time.monotonic() >= rpc.active_at + self._idle_seconds:
                        raise errors.IdleRpcError(self._idle_seconds)
                message: Any = reading.result()
                if message is grpc.aio.EOF:
                    return
                rpc.owed += 1
                rpc.active_at = time.monotonic()
                method.series.msg_received.value += 1
                yield await self._next(method, message, rpc)
                reading = asyncio.ensure_future(rpc.grpc.read())
        except grpc.aio.InternalError:
            raise _ended_by_grpc() from None
        finally:
            reading.cancel()
            if closed is not None:
                closed.cancel()

    async def _only_message(self, rpc: RpcContext) -> bytes:
        """Receive the message of a unary RPC.

        Raises:
            InvalidInputError: There is none.
            IdleRpcError: It is late.
            OverloadedError: Too many RPCs of its address wait for theirs, and no other has waited for as long.
        """
        limit = TimeLimit(self._time_limits, rpc.active_at + self._idle_seconds)
        waiting, most = self._waiting.setdefault(rpc.sender.network, {}), self._max_waiting
        try:
            with limit:
                if len(waiting) >= most:
                    waiting.pop(longest := next(iter(waiting)))
                    longest.reach()
                waiting[limit] = None
                message: Any = await rpc.grpc.read()
        except TimeoutError:
            if limit in waiting:
                raise errors.IdleRpcError(self._idle_seconds) from None
            text = f"the limit of {most} RPCs of one network address that wait for their messages is reached"
            raise OverloadedError(text, retry_after_seconds=1.0, reason="places") from None
        except grpc.aio.InternalError:
            raise _ended_by_grpc() from None
        finally:
            waiting.pop(limit, None)
            if not waiting:
                self._waiting.pop(rpc.sender.network, None)
        if message is grpc.aio.EOF:
            raise InvalidInputError([FieldViolation(field="request", description="must be sent")])
        return bytes(message)

    async def _next(self, method: Method, data: bytes, rpc: RpcContext) -> Any:
        """Decode a message of a stream; one over a limit is a separate fault, and has only its id."""
        try:
            request = await self._decoded(method, data, rpc)
        except InvalidInputError as error:
            if isinstance(error.__cause__, DecodeError):
                raise
            rpc.fault = error
            return await rpc.compute(partial(identified, method.request, data))
        rpc.fault = None
        return request

    async def _decoded(self, method: Method, data: bytes, rpc: RpcContext) -> Any:
        """Decode a message; InvalidInputError: it is not one of the method's, or has too many elements."""
        rpc.message_bytes = len(data)
        try:
            if len(data) <= SMALL_BYTES:
                return decode(method.request, data)
            return await rpc.offload(partial(decode, method.request, data, max_characters=self._max_characters))
        except DecodeError as error:
            if is_want_of_memory(error):
                raise
            fault = FieldViolation(field="request", description=f"must be a valid message of {method.name}")
            raise InvalidInputError([fault]) from error

    def _new_record(self, rpc: RpcContext, method: Method, request_id: str) -> RpcRecord | None:
        return self._observation.begin(
            service=method.service.name,
            method=method.name,
            request_id=request_id,
            metadata=rpc.metadata,
            caller=None if rpc.refusal else rpc.caller,
            host=rpc.sender.host,
            has_client_id=CLIENT_ID in rpc.metadata,
        )

    def _count(
        self, method: Method, rpc: RpcContext, code: grpc.StatusCode, seconds: float, reason: Reason | None
    ) -> None:
        """Count and log an RPC that has ended, and hand on its record."""
        record = rpc.record
        method.series.handling_seconds.observe(seconds, None if record is None else record.exemplar)
        method.handled(code).value += 1
        if code is not grpc.StatusCode.OK or self._log.has_successes:
            is_check, request_id = method.service.is_open, rpc.request_id
            self._log.write(method.path, code.name, seconds, is_check=is_check, request_id=request_id, reason=reason)
        if record is not None:
            if reason is not None:
                record.reason, record.fields = reason.word, reason.fields
                record.model = record.model or reason.model or None
            self._observation.end(record, code.name, code.value[0], seconds)

    def _count_unread(self, method: Method, refusal: errors.Refusal, rpc: RpcContext | None) -> None:
        if not self._unread:
            asyncio.get_running_loop().call_later(_UNREAD_SECONDS, self._publish_unread)
        key = method, refusal.code, refusal.reason
        if key not in self._unread and rpc is not None and REQUEST_ID in rpc.metadata:
            self._unread_ids[key] = chosen_id(rpc.metadata)
        self._unread[key] += 1

    def _publish_unread(self) -> None:
        for key, number in self._unread.items():
            method, code, reason = key
            method.series.started.value += number
            method.handled(code).value += number
            is_check = method.service.is_open
            for _ in range(number):
                # One has the id that its caller chose.
                request_id = self._unread_ids.pop(key, None)
                self._log.write(method.path, code.name, 0.0, is_check=is_check, request_id=request_id, reason=reason)
            self._observation.end_unread(method.name, code.name, number, reason=reason.word)
        self._unread.clear()


def _tells_of_others(error: OverloadedError) -> bool:
    """Return whether the next RPC would be refused as well."""
    # Quotas say nothing of it, which may be smaller, nor places and explanations, nor a model's limits of other models.
    return error.reason in {"queue", "deadline"} and not isinstance(error, ModelOverloadedError)


def _ended_by_grpc() -> asyncio.CancelledError:
    """Return the error that ends the task of an RPC with a status: the caller hung up, or sent no message."""
    return asyncio.CancelledError("gRPC has ended the call")
