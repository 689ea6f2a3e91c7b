"""Calls for asyncio: the twin of `blocking`, with the same plans."""

# ruff: noqa: ASYNC109 - these timeouts are sent to the server as deadlines, which asyncio.timeout cannot do

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, ParamSpec, TypeAlias, TypeVar

import grpc

from xuanzang.client._calls.calls import Call, Calls, Request, Response, SessionState, UnaryCall
from xuanzang.client._calls.channel import PROBE_SECONDS
from xuanzang.client._calls.methods import Method
from xuanzang.client._calls.status import reason_of_health
from xuanzang.client._errors import CallCancelledError, StatusCode
from xuanzang.client._values.results import OnUsage
from xuanzang.translation.v1 import translation_pb2_grpc

# The class exists for type checkers only.
Stub: TypeAlias = "translation_pb2_grpc.TranslationServiceAsyncStub"
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@contextmanager
def cancelled_calls() -> Iterator[None]:
    """Raise CallCancelledError where grpc.aio raises CancelledError for a cancelled call, as when the client is closed.

    A cancellation of the current task passes through unchanged.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise CallCancelledError("the call was cancelled", code=StatusCode.CANCELLED) from error


class AsyncCalls(Calls[grpc.aio.Channel, Stub]):
    """Calls of one client; tasks of one event loop may share it."""

    _library: ClassVar[Any] = grpc.aio
    _closed_error: ClassVar[Any] = grpc.aio.UsageError

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._probes: set[asyncio.Task[None]] = set()

    @staticmethod
    async def apart(work: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        """Do work that takes time and calls no server, in another thread."""
        return await asyncio.to_thread(work, *arguments, **named)

    async def close(self) -> None:
        """Close the connections; calls under way end with CallCancelledError."""
        self._closed.set()
        self.shared.addresses.wake()
        await asyncio.gather(*(channel.close() for channel in self._channels), *self._probes, return_exceptions=True)

    async def unary(self, method: Method[Request, Response], request: Request, *, timeout: float) -> Response:
        """Call a method with one request and one answer.

        Args:
            timeout: Seconds for everything.

        Raises:
            TranslationError: The call failed.
        """
        call = _UnaryCall(self, method, request, timeout)
        with call.metadata.naming_errors():
            return await call.run()

    async def answered(self, call: grpc.aio.Call, *, also: OnUsage | None = None) -> None:
        """Open the connections that a server asks for, and report the usage to the client's receiver and another."""
        receivers = self._receivers(also)
        if receivers or self.shared.addresses.may_widen:
            self._read_trailers(await call.trailing_metadata(), receivers)

    def probe(self, numbers: Sequence[int]) -> None:
        """Ask addresses whether they live; the answers are recorded in the background."""
        for number in numbers:
            task = asyncio.create_task(self._probe(number))
            self._probes.add(task)
            task.add_done_callback(self._probes.discard)

    async def _probe(self, number: int) -> None:
        try:
            answer = await self._checks[number](b"", timeout=PROBE_SECONDS)
            reason = reason_of_health(grpc.StatusCode.OK, None, answer)
        except grpc.aio.AioRpcError as error:
            reason = reason_of_health(error.code(), error.details(), None)
        except grpc.aio.UsageError:
            return  # the client is closed; the probe has no reader
        self.shared.addresses.probed(number, reason)


class _UnaryCall(UnaryCall[AsyncCalls, Request, Response, "grpc.aio.UnaryUnaryCall[Any, Response]"]):
    def __init__(self, calls: AsyncCalls, method: Method[Request, Response], request: Request, timeout: float) -> None:
        super().__init__(calls, method, request, timeout)
        self._events: asyncio.Queue[int | None] = asyncio.Queue()

    async def run(self) -> Response:
        """Return the first answer."""
        wake = partial(self._events.put_nowait, None)
        self._calls.shared.addresses.listen(wake)
        try:
            while True:
                step = self._plan.step()
                self._carry_out(step)
                number = await self._next(step.wait)
                if number is None:
                    continue
                call = self._tries.pop(number)
                try:
                    with cancelled_calls():
                        response: Response = await call
                except grpc.aio.AioRpcError as error:
                    self._fail(number, error)
                else:
                    self._plan.succeeded(number)
                    await self._calls.answered(call)
                    return response
        finally:
            self._calls.shared.addresses.unlisten(wake)
            self._plan.close()
            for each in self._tries.values():
                each.cancel()

    def _start(self, stub: Stub) -> grpc.aio.UnaryUnaryCall[Any, Response]:
        call: grpc.aio.UnaryUnaryCall[Any, Response] = self._method.of(stub)(
            self._request, timeout=self._seconds(), metadata=self.metadata.pairs
        )
        return call

    def _ended(self, number: int, _: object) -> None:
        self._events.put_nowait(number)

    async def _next(self, seconds: float | None) -> int | None:
        """Return the number of the next try that ends, or None if another step is due before."""
        try:
            async with asyncio.timeout(seconds):
                return await self._events.get()
        except TimeoutError:
            return None


class AsyncSession(SessionState[AsyncCalls, Call]):
    """Call that stays open for many answers, opened again elsewhere when it breaks."""

    async def open(self, *, seconds: float) -> Call:
        """Begin a try, now or after a backoff.

        Args:
            seconds: Time until the first answer must have come.

        Raises:
            CallCancelledError: The client is closed.
        """
        deadline = self._calls.shared.clock() + seconds
        while True:
            call, wait = self._begun(deadline)
            if call is not None:
                return call
            await asyncio.sleep(wait)
