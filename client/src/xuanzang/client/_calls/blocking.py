"""Blocking calls: carry out the plans of `_reliability` with one gRPC channel per address."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar, cast

import grpc

from xuanzang.client._calls.calls import Call, Calls, Pairs, Request, Response, SessionState, UnaryCall
from xuanzang.client._calls.channel import PROBE_SECONDS
from xuanzang.client._calls.methods import Method
from xuanzang.client._calls.status import reason_of_health
from xuanzang.client._errors import CallCancelledError, StatusCode
from xuanzang.client._values.results import OnUsage
from xuanzang.translation.v1 import translation_pb2_grpc

Stub = translation_pb2_grpc.TranslationServiceStub
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Answer_co = TypeVar("Answer_co", covariant=True)


class Ended(Protocol):
    """Call that has ended."""

    def trailing_metadata(self) -> Pairs: ...


class _Future(Ended, Protocol[Answer_co]):
    """Subset of the gRPC call object that is used here; a failed one is its own exception."""

    def add_done_callback(self, callback: Callable[[Any], None], /) -> None: ...

    def cancel(self) -> bool: ...

    def code(self) -> grpc.StatusCode: ...

    def details(self) -> str: ...

    def result(self) -> Answer_co: ...


class BlockingCalls(Calls[grpc.Channel, Stub]):
    """Calls of one client; threads may share it."""

    _library: ClassVar[Any] = grpc
    _closed_error: ClassVar[Any] = ValueError

    def close(self) -> None:
        """Close the connections; calls under way end with CallCancelledError."""
        self._closed.set()
        for channel in self._channels:
            channel.close()
        self.shared.addresses.wake()

    def unary(self, method: Method[Request, Response], request: Request, *, timeout: float) -> Response:
        """Call a method with one request and one answer.

        Args:
            timeout: Seconds for everything.

        Raises:
            TranslationError: The call failed.
        """
        call = _UnaryCall(self, method, request, timeout)
        with call.metadata.naming_errors():
            # Only one try at a time has an address; waiting for it directly takes a third of the processor time.
            return call.run_in_turn() if len(self.shared.addresses) == 1 else call.run()

    @staticmethod
    def apart(work: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        """Do work that takes time and calls no server; for asyncio, another thread does it."""
        return work(*arguments, **named)

    def answered(self, call: Ended, *, also: OnUsage | None = None) -> None:
        """Open the connections that a server asks for, and report the usage to the client's receiver and another."""
        receivers = self._receivers(also)
        if receivers or self.shared.addresses.may_widen:
            self._read_trailers(call.trailing_metadata(), receivers)

    def probe(self, numbers: Sequence[int]) -> None:
        """Ask addresses whether they live; the answers are recorded in the background."""
        for number in numbers:
            try:
                check = self._checks[number].future(b"", timeout=PROBE_SECONDS)
            except ValueError:  # the client is closed; the probe has no reader
                return
            check.add_done_callback(partial(self._probed, number, check))

    def _probed(self, number: int, check: _Future[bytes], _: object) -> None:
        if self.closed:
            return
        code = check.code()
        answer = check.result() if code is grpc.StatusCode.OK else None
        self.shared.addresses.probed(number, reason_of_health(code, check.details(), answer))


class _UnaryCall(UnaryCall[BlockingCalls, Request, Response, _Future[Response]]):
    def __init__(
        self, calls: BlockingCalls, method: Method[Request, Response], request: Request, timeout: float
    ) -> None:
        super().__init__(calls, method, request, timeout)
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

    def _ended(self, number: int, _: object) -> None:
        self._events.put(number)

    def _next(self, seconds: float | None) -> int | None:
        """Return the number of the next try that ends, or None if another step is due before."""
        try:
            return self._events.get(timeout=seconds)
        except queue.Empty:
            return None


class Session(SessionState[BlockingCalls, Call]):
    """Call that stays open for many answers, opened again elsewhere when it breaks.

    Args:
        start: Function that begins a try with a stub.
        wait: Function that waits for seconds and returns a true value if the session is to end.
    """

    def __init__(
        self, calls: BlockingCalls, start: Callable[[Stub], Call], *, wait: Callable[[float], object] = time.sleep
    ) -> None:
        super().__init__(calls, start)
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
            call, wait = self._begun(deadline)
            if call is not None:
                return call
            if self._wait(wait):
                raise CallCancelledError("the stream was closed", code=StatusCode.CANCELLED)
