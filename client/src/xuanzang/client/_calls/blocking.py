"""Blocking calls: carry out the plans of `_reliability` with one gRPC channel per address."""

from __future__ import annotations

import copy
import queue
import random
import threading
import time
from abc import ABC
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar, cast

import grpc
from google.protobuf.message import Message

from xuanzang.client._calls.channel import HEALTH_CHECK, PROBE_SECONDS, connections_for, positive_timeout
from xuanzang.client._calls.metadata import CallMetadata, Metadata, without_request_id
from xuanzang.client._calls.methods import Method
from xuanzang.client._calls.status import fault_of, mapped_error, reason_of_health
from xuanzang.client._errors import CallCancelledError, ServerUnavailableError, StatusCode, TranslationError
from xuanzang.client._reliability.addresses import Addresses
from xuanzang.client._reliability.first_contact import FirstContact
from xuanzang.client._reliability.plan import CallPlan, SessionPlan, Shared, Step
from xuanzang.client._reliability.throttle import Throttles
from xuanzang.client._reliability.tries import Fault, FaultKind
from xuanzang.client._values.results import OnUsage, usage_of
from xuanzang.translation.v1 import translation_pb2_grpc

Stub = translation_pb2_grpc.TranslationServiceStub
Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response")
Call = TypeVar("Call")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Answer_co = TypeVar("Answer_co", covariant=True)


class Ended(Protocol):
    """Call that has ended."""

    def trailing_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...


class _Future(Protocol[Answer_co]):
    """Subset of the gRPC call object that is used here; a failed one is its own exception."""

    def add_done_callback(self, fn: Callable[[grpc.Future[Any]], None]) -> None: ...

    def cancel(self) -> bool: ...

    def code(self) -> grpc.StatusCode: ...

    def details(self) -> str: ...

    def result(self) -> Answer_co: ...

    def trailing_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...


def shared(
    names: Sequence[str], *, used: int | None = None, throttled: bool, first_contact: FirstContact | None = None
) -> Shared:
    """Return what all calls of a client share whose connections have these names, the first `used` of them at first."""
    clock, draw = time.monotonic, random.SystemRandom().random
    return Shared(
        addresses=Addresses(names, used=used, clock=clock, random=draw),
        clock=clock,
        random=draw,
        throttles=Throttles(len(names), clock=clock, random=draw) if throttled else None,
        first_contact=first_contact,
    )


def read_trailers(
    metadata: Iterable[tuple[str, str | bytes]] | None, common: Shared, receivers: Sequence[OnUsage]
) -> None:
    """Open the connections that a server asks for in the metadata that ends an answer, and report the usage."""
    if common.addresses.may_widen:
        common.addresses.widen(connections_for(metadata))
    if usage := usage_of(metadata):
        for receive in receivers:
            receive(usage)


class BlockingCalls:
    """Calls of one client; threads may share it.

    Args:
        used: Number of channels, the first ones, that are used until a server asks for more; None: all.
        throttled: Whether calls that an overloaded server would refuse are held back.
        first_contact: How long to wait for addresses that have never answered; None: as for others.
    """

    def __init__(
        self,
        channels: dict[str, grpc.Channel],
        metadata: Metadata,
        *,
        used: int | None = None,
        throttled: bool = True,
        first_contact: FirstContact | None = None,
    ) -> None:
        self.shared = shared(list(channels), used=used, throttled=throttled, first_contact=first_contact)
        self.metadata = metadata
        self._closed = threading.Event()
        self.on_usage: OnUsage | None = None
        """Receiver of what each call has used."""
        self._channels = list(channels.values())
        self._stubs = [Stub(channel) for channel in self._channels]
        self._checks: list[grpc.UnaryUnaryMultiCallable[bytes, bytes]]
        self._checks = [channel.unary_unary(HEALTH_CHECK) for channel in self._channels]

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

    def close(self) -> None:
        """Close the connections; calls under way end with CallCancelledError."""
        self._closed.set()
        for channel in self._channels:
            channel.close()
        self.shared.addresses.wake()

    def unary(
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
            # Only one try at a time has an address; waiting for it directly takes a third of the processor time.
            return call.run_in_turn() if len(self.shared.addresses) == 1 else call.run()

    @staticmethod
    def apart(work: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        """Do work that takes time and calls no server; for asyncio, another thread does it."""
        return work(*arguments, **named)

    def open(self, number: int, start: Callable[[Stub], Call]) -> Call:
        """Begin a try.

        Raises:
            CallCancelledError: The client is closed.
        """
        try:
            return start(self._stubs[number])
        except ValueError as error:  # what gRPC raises for a closed channel
            if not self.closed:
                raise
            raise CallCancelledError("the client was closed", code=StatusCode.CANCELLED) from error

    def answered(self, call: Ended, *, also: OnUsage | None = None) -> None:
        """Open the connections that a server asks for, and report the usage to the client's receiver and another."""
        receivers = [each for each in (self.on_usage, also) if each]
        if receivers or self.shared.addresses.may_widen:
            read_trailers(call.trailing_metadata(), self.shared, receivers)

    def probe(self, numbers: Sequence[int]) -> None:
        """Ask addresses whether they live; the answers are recorded in the background."""
        for number in numbers:
            try:
                check = self._checks[number].future(b"", timeout=PROBE_SECONDS)
            except ValueError:  # the client is closed; the probe has no reader
                return
            check.add_done_callback(partial(self._probed, number, check))

    def fault(self, error: grpc.RpcError) -> Fault:
        """Return the kind of failure of a try, which decides about another."""
        return Fault(kind=FaultKind.FINAL) if self.closed else fault_of(error)

    def _probed(self, number: int, check: _Future[bytes], _: object) -> None:
        if self.closed:
            return
        code = check.code()
        answer = check.result() if code is grpc.StatusCode.OK else None
        self.shared.addresses.probed(number, reason_of_health(code, check.details(), answer))


class BlockingMethods(ABC):
    """Methods of a client over its calls."""

    _calls: BlockingCalls
    _timeout: float

    @property
    def _open_calls(self) -> BlockingCalls:
        if self._calls.closed:
            raise RuntimeError("the client is closed")
        return self._calls

    def _seconds(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else positive_timeout(timeout)


class _UnaryCall(Generic[Request, Response]):
    """One call with all its tries."""

    def __init__(
        self,
        calls: BlockingCalls,
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
        self._tries: dict[int, _Future[Response]] = {}
        self._events: queue.SimpleQueue[int | None] = queue.SimpleQueue()

    def run(self) -> Response:
        """Return the first answer."""
        wake = partial(self._events.put, None)
        self._calls.shared.addresses.listen(wake)
        try:
            while True:
                step = self._plan.step()
                self._carry_out(step)
                number = self._next(step.wait)
                if number is None:
                    continue
                call = self._tries.pop(number)
                if call.code() is grpc.StatusCode.OK:
                    self._plan.succeeded(number)
                    self._calls.answered(call)
                    return call.result()
                self._fail(number, cast("grpc.RpcError", call))
        finally:
            self._calls.shared.addresses.unlisten(wake)
            self._plan.close()
            for each in self._tries.values():
                each.cancel()

    def run_in_turn(self) -> Response:
        """Return the first answer of tries made one after another."""
        try:
            while True:
                step = self._plan.step()
                if not step.tries:
                    time.sleep(step.wait or 0.0)
                for number, address in step.tries:
                    try:
                        response, call = self._calls.open(address, self._wait)
                    except grpc.RpcError as error:
                        self._fail(number, error)
                    else:
                        self._plan.succeeded(number)
                        self._calls.answered(call)
                        return response
        finally:
            self._plan.close()

    def _carry_out(self, step: Step) -> None:
        self._calls.probe(step.probes)
        for number, address in step.tries:
            call = self._calls.open(address, self._start)
            self._tries[number] = call
            call.add_done_callback(partial(self._ended, number))

    def _start(self, stub: Stub) -> _Future[Response]:
        call: _Future[Response] = self._method.of(stub).future(
            self._request, timeout=self._seconds(), metadata=self.metadata.pairs
        )
        return call

    def _wait(self, stub: Stub) -> tuple[Response, Ended]:
        answer: tuple[Response, Ended] = self._method.of(stub).with_call(
            self._request, timeout=self._seconds(), metadata=self.metadata.pairs
        )
        return answer

    def _seconds(self) -> float:
        return max(0.0, self._deadline - self._calls.shared.clock())

    def _ended(self, number: int, _: object) -> None:
        self._events.put(number)

    def _next(self, seconds: float | None) -> int | None:
        """Return the number of the next try that ends, or None if another step is due before."""
        try:
            return self._events.get(timeout=seconds)
        except queue.Empty:
            return None

    def _fail(self, number: int, error: grpc.RpcError) -> None:
        fault = self._calls.fault(error)
        if self._plan.failed(number, fault):
            raise failure(error, fault, self._method, self._calls.shared) from error


def failure(error: grpc.RpcError, fault: Fault, method: Method[Any, Any], shared: Shared) -> TranslationError:
    """Return the error of a call whose last try failed."""
    if fault.kind is FaultKind.BROKEN and not method.traits.is_repeatable:
        message = f"the connection broke, and {method.traits.rpc} may have been carried out: {fault.message}"
        return ServerUnavailableError(message, code=StatusCode.UNAVAILABLE)
    return mapped_error(error, causes=shared.causes)


class Caller(Protocol):
    """Part of a client's calls that sessions use, blocking or not."""

    shared: Shared

    def fault(self, error: grpc.RpcError) -> Fault:
        """Return the kind of failure of a try, which decides about another."""


class SessionState:
    """Record of a session's tries; the twins differ only in how they begin one."""

    def __init__(self, calls: Caller) -> None:
        self._caller = calls
        self._plan = SessionPlan(calls.shared)

    def answered(self) -> None:
        """Record an answer."""
        self._plan.answered()

    def failed(self, error: grpc.RpcError, *, seconds: float | None) -> Fault:
        """Record the end of a try; `open` begins the next.

        Args:
            seconds: Time until the next answer must have come; None: none is expected.

        Raises:
            TranslationError: The call has failed with it.
        """
        # The error of a blocking call is the call itself, which the frames of its traceback would keep.
        fault = self._caller.fault(error.with_traceback(None))
        deadline = None if seconds is None else self._caller.shared.clock() + seconds
        if self._plan.failed(fault, deadline=deadline):
            raise mapped_error(error, causes=self._caller.shared.causes) from error
        return fault

    def close(self) -> None:
        """Forget the try under way, which the caller has cancelled."""
        self._plan.close()


class Session(SessionState, Generic[Call]):
    """Call that stays open for many answers, opened again elsewhere when it breaks.

    Args:
        start: Function that begins a try with a stub.
        wait: Function that waits for seconds and returns a true value if the session is to end.
    """

    def __init__(
        self, calls: BlockingCalls, start: Callable[[Stub], Call], *, wait: Callable[[float], object] = time.sleep
    ) -> None:
        super().__init__(calls)
        self._calls = calls
        self._start = start
        self._wait = wait

    def open(self, *, seconds: float) -> Call:
        """Begin a try, now or after a backoff.

        Args:
            seconds: Time until the first answer must have come.

        Raises:
            CallCancelledError: The client or the session is closed.
        """
        deadline = self._calls.shared.clock() + seconds
        while True:
            step = self._plan.open(deadline=deadline)
            self._calls.probe(step.probes)
            for _, address in step.tries:
                return self._calls.open(address, self._start)
            if self._wait(step.wait or 0.0):
                raise CallCancelledError("the stream was closed", code=StatusCode.CANCELLED)
