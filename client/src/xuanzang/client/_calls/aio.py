"""Calls for asyncio: the twin of `blocking`, with the same plans."""

# ruff: noqa: ASYNC109 - these timeouts are sent to the server as deadlines, which asyncio.timeout cannot do

from __future__ import annotations

import asyncio
import copy
from abc import ABC
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, ParamSpec, Self, TypeAlias, TypeVar, cast

import grpc
from google.protobuf.message import Message

from xuanzang.client._calls.blocking import SessionState, failure, read_trailers, shared
from xuanzang.client._calls.channel import HEALTH_CHECK, PROBE_SECONDS, positive_timeout
from xuanzang.client._calls.metadata import CallMetadata, Metadata, without_request_id
from xuanzang.client._calls.methods import Method
from xuanzang.client._calls.status import fault_of, reason_of_health
from xuanzang.client._errors import CallCancelledError, StatusCode
from xuanzang.client._reliability.first_contact import FirstContact
from xuanzang.client._reliability.plan import CallPlan, Step
from xuanzang.client._reliability.tries import Fault, FaultKind
from xuanzang.client._values.results import OnUsage
from xuanzang.translation.v1 import translation_pb2_grpc


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


# The class exists for type checkers only.
Stub: TypeAlias = "translation_pb2_grpc.TranslationServiceAsyncStub"
Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response")
Call = TypeVar("Call")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class AsyncCalls:
    """Calls of one client; tasks of one event loop may share it.

    Args:
        used: Number of channels, the first ones, that are used until a server asks for more; None: all.
        throttled: Whether calls that an overloaded server would refuse are held back.
        first_contact: How long to wait for addresses that have never answered; None: as for others.
    """

    def __init__(
        self,
        channels: dict[str, grpc.aio.Channel],
        metadata: Metadata,
        *,
        used: int | None = None,
        throttled: bool = True,
        first_contact: FirstContact | None = None,
    ) -> None:
        self.shared = shared(list(channels), used=used, throttled=throttled, first_contact=first_contact)
        self.metadata = metadata
        self._closed = asyncio.Event()
        self.on_usage: OnUsage | None = None
        """Receiver of what each call has used."""
        self._channels = list(channels.values())
        # One stub class serves both libraries; only its types differ.
        self._stubs = [cast("Stub", translation_pb2_grpc.TranslationServiceStub(each)) for each in self._channels]
        self._checks: list[grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]]
        self._checks = [channel.unary_unary(HEALTH_CHECK) for channel in self._channels]
        self._probes: set[asyncio.Task[None]] = set()

    @staticmethod
    async def apart(work: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        """Do work that takes time and calls no server, in another thread."""
        return await asyncio.to_thread(work, *arguments, **named)

    @property
    def closed(self) -> bool:
        """True if the connections are closed."""
        return self._closed.is_set()

    def carrying(self, metadata: Metadata) -> Self:
        """Return calls over the same connections that carry other metadata; closing either closes both."""
        twin = copy.copy(self)
        twin.metadata = metadata
        twin.shared = self.shared.of_caller(without_request_id(metadata))
        return twin

    async def close(self) -> None:
        """Close the connections; calls under way end with CallCancelledError."""
        self._closed.set()
        self.shared.addresses.wake()
        await asyncio.gather(*(channel.close() for channel in self._channels), *self._probes, return_exceptions=True)

    async def unary(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        timeout: float,
    ) -> Response:
        """Call a method with one request and one answer.

        Args:
            timeout: Seconds for everything.

        Raises:
            TranslationError: The call failed.
        """
        deadline = self.shared.clock() + timeout
        plan = CallPlan(self.shared, method.traits, deadline=deadline, size=request.ByteSize())
        call = _UnaryCall(self, method, request, plan, deadline)
        with call.metadata.naming_errors():
            return await call.run()

    def open(self, number: int, start: Callable[[Stub], Call]) -> Call:
        """Begin a try.

        Raises:
            CallCancelledError: The client is closed.
        """
        try:
            return start(self._stubs[number])
        except grpc.aio.UsageError as error:
            if not self.closed:
                raise
            raise CallCancelledError("the client was closed", code=StatusCode.CANCELLED) from error

    async def answered(self, call: grpc.aio.Call, *, also: OnUsage | None = None) -> None:
        """Open the connections that a server asks for, and report the usage to the client's receiver and another."""
        receivers = [each for each in (self.on_usage, also) if each]
        if receivers or self.shared.addresses.may_widen:
            read_trailers(await call.trailing_metadata(), self.shared, receivers)

    def probe(self, numbers: Sequence[int]) -> None:
        """Ask addresses whether they live; the answers are recorded in the background."""
        for number in numbers:
            task = asyncio.create_task(self._probe(number))
            self._probes.add(task)
            task.add_done_callback(self._probes.discard)

    def fault(self, error: grpc.RpcError) -> Fault:
        """Return the kind of failure of a try, which decides about another."""
        return Fault(kind=FaultKind.FINAL) if self.closed else fault_of(error)

    async def _probe(self, number: int) -> None:
        try:
            answer = await self._checks[number](b"", timeout=PROBE_SECONDS)
            reason = reason_of_health(grpc.StatusCode.OK, None, answer)
        except grpc.aio.AioRpcError as error:
            reason = reason_of_health(error.code(), error.details(), None)
        except grpc.aio.UsageError:
            return  # the client is closed; the probe has no reader
        self.shared.addresses.probed(number, reason)


class AsyncMethods(ABC):
    """Methods of a client over its calls."""

    _calls: AsyncCalls
    _timeout: float

    @property
    def _open_calls(self) -> AsyncCalls:
        if self._calls.closed:
            raise RuntimeError("the client is closed")
        return self._calls

    def _seconds(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else positive_timeout(timeout)


class _UnaryCall(Generic[Request, Response]):
    """One call with all its tries."""

    def __init__(
        self,
        calls: AsyncCalls,
        method: Method[Request, Response],
        request: Request,
        plan: CallPlan,
        deadline: float,
    ) -> None:
        self.metadata = CallMetadata.of(calls.metadata)
        self._calls = calls
        self._method = method
        self._request = request
        self._plan = plan
        self._deadline = deadline
        self._tries: dict[int, grpc.aio.UnaryUnaryCall[Request, Response]] = {}
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
                    fault = self._calls.fault(error)
                    if self._plan.failed(number, fault):
                        raise failure(error, fault, self._method, self._calls.shared) from error
                else:
                    self._plan.succeeded(number)
                    await self._calls.answered(call)
                    return response
        finally:
            self._calls.shared.addresses.unlisten(wake)
            self._plan.close()
            for each in self._tries.values():
                each.cancel()

    def _carry_out(self, step: Step) -> None:
        self._calls.probe(step.probes)
        for number, address in step.tries:
            call = self._calls.open(address, self._start)
            self._tries[number] = call
            call.add_done_callback(partial(self._ended, number))

    def _start(self, stub: Stub) -> grpc.aio.UnaryUnaryCall[Request, Response]:
        seconds = max(0.0, self._deadline - self._calls.shared.clock())
        call: grpc.aio.UnaryUnaryCall[Request, Response] = self._method.of(stub)(
            self._request, timeout=seconds, metadata=self.metadata.pairs
        )
        return call

    def _ended(self, number: int, _: Any) -> None:
        self._events.put_nowait(number)

    async def _next(self, seconds: float | None) -> int | None:
        """Return the number of the next try that ends, or None if another step is due before."""
        try:
            async with asyncio.timeout(seconds):
                return await self._events.get()
        except TimeoutError:
            return None


class AsyncSession(SessionState, Generic[Call]):
    """Call that stays open for many answers, opened again elsewhere when it breaks.

    Args:
        start: Function that begins a try with a stub.
    """

    def __init__(self, calls: AsyncCalls, start: Callable[[Stub], Call]) -> None:
        super().__init__(calls)
        self._calls = calls
        self._start = start

    async def open(self, *, seconds: float) -> Call:
        """Begin a try, now or after a backoff.

        Args:
            seconds: Time until the first answer must have come.

        Raises:
            CallCancelledError: The client is closed.
        """
        deadline = self._calls.shared.clock() + seconds
        while True:
            step = self._plan.open(deadline=deadline)
            self._calls.probe(step.probes)
            for _, address in step.tries:
                return self._calls.open(address, self._start)
            await asyncio.sleep(step.wait or 0.0)
