"""Calls of a client: the core of both clients, written once, with waits that block or those of asyncio."""

from __future__ import annotations

import copy
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Self, TypeAlias, TypeVar, cast

import grpc
from google.protobuf.message import Message

from xuanzang.client._calls.channel import connections_for
from xuanzang.client._calls.metadata import CallMetadata, Metadata, without_request_id
from xuanzang.client._calls.status import fault_of, mapped_error
from xuanzang.client._calls.waits import Waits
from xuanzang.client._errors import CallCancelledError, ServerUnavailableError, StatusCode
from xuanzang.client._reliability.addresses import Addresses
from xuanzang.client._reliability.first_contact import FirstContact
from xuanzang.client._reliability.plan import CallPlan, Shared
from xuanzang.client._reliability.throttle import Throttle
from xuanzang.client._reliability.tries import STREAM, Fault, FaultKind, Method
from xuanzang.client._values.results import OnUsage, usage_of
from xuanzang.translation.v1 import translation_pb2_grpc

Request = TypeVar("Request", bound=Message)
Value = TypeVar("Value")
Stub: TypeAlias = translation_pb2_grpc.TranslationServiceStub


class Calls:
    """Calls of one client.

    Args:
        channels: Connections by name.
        used: Number of channels, the first ones, that are used until a server asks for more; None: all.
        throttled: Whether calls that an overloaded server would refuse are held back.
        first_contact: How long to wait for addresses that have never answered; None: as for others.
    """

    def __init__(
        self,
        waits: Waits,
        channels: dict[str, Any],
        metadata: Metadata,
        *,
        used: int | None = None,
        throttled: bool = True,
        first_contact: FirstContact | None = None,
    ) -> None:
        clock, draw = time.monotonic, random.SystemRandom().random
        self.shared = Shared(
            addresses=Addresses(list(channels), used=used, clock=clock, random=draw),
            clock=clock,
            random=draw,
            throttles=[Throttle(clock) for _ in channels] if throttled else (),
            first_contact=first_contact,
        )
        self.waits = waits
        self.metadata = metadata
        self.on_usage: OnUsage | None = None
        """Receiver of what each call has used."""
        self._closed = threading.Event()
        self._at_close: set[Callable[[], None]] = set()
        self._channels = list(channels.values())
        self._stubs = [translation_pb2_grpc.TranslationServiceStub(channel) for channel in self._channels]

    @property
    def closed(self) -> bool:
        """True if the connections are closed."""
        return self._closed.is_set()

    async def close(self) -> None:
        """Close the connections; calls under way end with CallCancelledError."""
        self._closed.set()
        await self.waits.close(self._channels)
        for each in list(self._at_close):
            each()

    @contextmanager
    def notified_of_close(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call a function when the client is closed."""
        self._at_close.add(listener)
        try:
            yield
        finally:
            self._at_close.discard(listener)

    def carrying(self, metadata: Metadata) -> Self:
        """Return calls over the same connections that carry other metadata; closing either closes both."""
        twin = copy.copy(self)
        twin.metadata = metadata
        twin.shared = self.shared.of_caller(without_request_id(metadata))
        return twin

    async def unary(self, method: Method[Request, Value], request: Request, *, seconds: float) -> Value:
        """Call a method with one request and one answer.

        Args:
            seconds: Time for everything.

        Raises:
            TranslationError: The call failed.
        """
        metadata, deadline = CallMetadata.of(self.metadata), self.shared.clock() + seconds
        plan = CallPlan(self.shared, method, deadline=deadline, size=request.ByteSize())
        tries = self.waits.tries(alone=len(self.shared.addresses) == 1)
        with metadata.naming_errors(), self._naming_close():
            try:
                while True:
                    step = plan.step()
                    for number, address in step.tries:
                        left = max(0.0, deadline - self.shared.clock())
                        rpc = getattr(self._stubs[address], method.rpc)
                        tries.begin(number, rpc, request, timeout=left, metadata=metadata.pairs)
                    ended = await tries.ended(step.wait)
                    if ended is not None and ended.error is None:
                        plan.succeeded(ended.number)
                        await self.answered(ended.call)
                        return method.read(ended.response, request)
                    if ended is not None and ended.error is not None:
                        self._fail(plan, method, ended.number, ended.error)
            finally:
                plan.close()
                tries.cancel()

    def _fail(self, plan: CallPlan, method: Method[Any, Any], number: int, error: grpc.RpcError) -> None:
        """Record the failure of a try, or raise it if the call has failed with it."""
        fault = self.fault(error)
        if not plan.failed(number, fault):
            return
        if fault.leaves_open and not method.is_repeatable:
            message = f"the connection broke, and {method.rpc} may have been carried out: {fault.message}"
            raise ServerUnavailableError(message, code=StatusCode.UNAVAILABLE) from error
        raise mapped_error(error, causes=self.shared.causes) from error

    def fault(self, error: grpc.RpcError) -> Fault:
        """Return the kind of failure of a try, which decides about another."""
        return Fault(kind=FaultKind.FINAL) if self.closed else fault_of(error)

    async def answered(self, call: Any, *, also: OnUsage | None = None) -> None:
        """Open the connections that a server asks for, and report the usage to the client's receiver and another."""
        receivers = [each for each in (self.on_usage, also) if each]
        if not (receivers or self.shared.addresses.may_widen):
            return
        metadata = await self.waits.trailers(call)
        if self.shared.addresses.may_widen:
            self.shared.addresses.widen(connections_for(metadata))
        if usage := usage_of(metadata):
            for receive in receivers:
                receive(usage)

    def begin(self, address: int, start: Callable[[Stub], Any]) -> Any:
        """Begin a call with many answers.

        Raises:
            CallCancelledError: The client is closed.
        """
        with self._naming_close():
            return start(self._stubs[address])

    @contextmanager
    def _naming_close(self) -> Iterator[None]:
        """Raise CallCancelledError for a call over a closed channel."""
        try:
            yield
        except self.waits.closed_error as error:
            if not self.closed:
                raise
            raise CallCancelledError("the client was closed", code=StatusCode.CANCELLED) from error


AnyCall = TypeVar("AnyCall")


class Session(Generic[AnyCall]):
    """Call that stays open for many answers: one try at a time, on another address after each failure.

    Args:
        start: Function that begins a try with a stub.
        sleep: Wait before another try, which may raise; None: of any length.
    """

    def __init__(
        self,
        calls: Calls,
        start: Callable[[Stub], AnyCall],
        *,
        sleep: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        self._calls = calls
        self._start = start
        self._sleep = sleep or calls.waits.sleep
        self._plan: CallPlan | None = None  # none before the first deadline is known
        self._number = self._address = 0  # of the last try
        self._progress = False  # whether there were answers since the failure before

    async def open(self, *, seconds: float) -> AnyCall:
        """Begin a try, now or after a backoff.

        Args:
            seconds: Time until the first answer must have come.

        Raises:
            CallCancelledError: The client is closed.
        """
        shared = self._calls.shared
        self._plan = self._plan or CallPlan(shared, STREAM, deadline=shared.clock() + seconds, size=0)
        while not (step := self._plan.step()).tries:
            await self._sleep(step.wait or 0.0)
        [(self._number, self._address)] = step.tries
        return cast("AnyCall", self._calls.begin(self._address, self._start))

    def answered(self) -> None:
        """Record an answer: the address lives."""
        self._progress = True
        self._calls.shared.addresses.answered(self._address)

    def failed(self, error: grpc.RpcError, *, seconds: float | None) -> Fault:
        """Record the end of a try; `open` begins the next.

        Args:
            seconds: Time until the next answer must have come; None: none is expected, so the next try has none of the
                failures before.

        Raises:
            TranslationError: The call has failed with it.
        """
        # The error of a blocking call is the call itself, which the frames of its traceback would keep.
        fault, shared = self._calls.fault(error.with_traceback(None)), self._calls.shared
        if self._plan is not None and self._progress and seconds is not None:
            self._plan.forget_failures(deadline=shared.clock() + seconds)
        self._progress = False
        has_failed = self._plan is None or self._plan.failed(self._number, fault)
        if seconds is None and fault.may_pass:
            self._plan = None
        elif has_failed:
            raise mapped_error(error, causes=shared.causes) from error
        return fault

    def close(self) -> None:
        """Forget the try under way; the client has cancelled it."""
        if self._plan is not None:
            self._plan.close()
