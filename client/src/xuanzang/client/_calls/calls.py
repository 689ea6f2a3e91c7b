"""Calls of a client without their waits: the parts that blocking calls and those of asyncio share."""

from __future__ import annotations

import copy
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import grpc
from google.protobuf.message import Message

from xuanzang.client._calls.channel import HEALTH_CHECK, connections_for
from xuanzang.client._calls.metadata import CallMetadata, Metadata, without_request_id
from xuanzang.client._calls.methods import Method
from xuanzang.client._calls.status import fault_of, mapped_error
from xuanzang.client._errors import CallCancelledError, ServerUnavailableError, StatusCode, TranslationError
from xuanzang.client._reliability.addresses import Addresses
from xuanzang.client._reliability.first_contact import FirstContact
from xuanzang.client._reliability.plan import CallPlan, SessionPlan, Shared, Step
from xuanzang.client._reliability.throttle import Throttles
from xuanzang.client._reliability.tries import Fault, FaultKind
from xuanzang.client._values.results import OnUsage, usage_of
from xuanzang.translation.v1 import translation_pb2_grpc

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response")
Call = TypeVar("Call")
Channel = TypeVar("Channel", bound=grpc.Channel | grpc.aio.Channel)
Stub = TypeVar("Stub")
Pairs = Iterable[tuple[str, str | bytes]] | None


class Try(Protocol):
    """Subset of a gRPC call, blocking or not, that is used here."""

    def add_done_callback(self, callback: Callable[[Any], None], /) -> None: ...

    def cancel(self) -> bool: ...


AnyTry = TypeVar("AnyTry", bound=Try)


class Calls(ABC, Generic[Channel, Stub]):
    """Calls of one client.

    Args:
        channels: Connections by name.
        used: Number of channels, the first ones, that are used until a server asks for more; None: all.
        throttled: Whether calls that an overloaded server would refuse are held back.
        first_contact: How long to wait for addresses that have never answered; None: as for others.
    """

    _library: ClassVar[Any]
    """Module of gRPC that opens channels."""
    _stub: ClassVar[Any] = translation_pb2_grpc.TranslationServiceStub
    _closed_error: ClassVar[Any]
    """Exception of gRPC for a call over a closed channel."""

    def __init__(
        self,
        channels: dict[str, Channel],
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
            throttles=Throttles(len(channels), clock=clock, random=draw) if throttled else None,
            first_contact=first_contact,
        )
        self.metadata = metadata
        self._closed = threading.Event()
        self.on_usage: OnUsage | None = None
        """Receiver of what each call has used."""
        self._channels = list(channels.values())
        self._stubs: list[Stub] = [self._stub(channel) for channel in self._channels]
        self._checks: list[Any] = [channel.unary_unary(HEALTH_CHECK) for channel in self._channels]

    @classmethod
    def opened(
        cls, target: str, credentials: grpc.ChannelCredentials | None, options: Sequence[tuple[str, str | int]]
    ) -> Channel:
        """Open a connection; None: without TLS."""
        channel: Channel
        if credentials is None:
            channel = cls._library.insecure_channel(target, options)
        else:
            channel = cls._library.secure_channel(target, credentials, options)
        return channel

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

    def open(self, number: int, start: Callable[[Stub], Call]) -> Call:
        """Begin a try.

        Raises:
            CallCancelledError: The client is closed.
        """
        try:
            return start(self._stubs[number])
        except self._closed_error as error:
            if not self.closed:
                raise
            raise CallCancelledError("the client was closed", code=StatusCode.CANCELLED) from error

    @abstractmethod
    def probe(self, numbers: Sequence[int]) -> None:
        """Ask addresses whether they live; the answers are recorded in the background."""

    def fault(self, error: grpc.RpcError) -> Fault:
        """Return the kind of failure of a try, which decides about another."""
        return Fault(kind=FaultKind.FINAL) if self.closed else fault_of(error)

    def _receivers(self, also: OnUsage | None) -> list[OnUsage]:
        return [each for each in (self.on_usage, also) if each]

    def _read_trailers(self, metadata: Pairs, receivers: Sequence[OnUsage]) -> None:
        """Open the connections that a server asks for in the metadata that ends an answer, and report the usage."""
        if self.shared.addresses.may_widen:
            self.shared.addresses.widen(connections_for(metadata))
        if usage := usage_of(metadata):
            for receive in receivers:
                receive(usage)


AnyCalls = TypeVar("AnyCalls", bound=Calls[Any, Any])


class UnaryCall(ABC, Generic[AnyCalls, Request, Response, AnyTry]):
    """One call with all its tries.

    Args:
        timeout: Seconds for everything.
    """

    def __init__(self, calls: AnyCalls, method: Method[Request, Response], request: Request, timeout: float) -> None:
        self.metadata = CallMetadata.of(calls.metadata)
        self._calls = calls
        self._method = method
        self._request = request
        self._deadline = calls.shared.clock() + timeout
        self._plan = CallPlan(calls.shared, method.traits, deadline=self._deadline, size=request.ByteSize())
        self._tries: dict[int, AnyTry] = {}

    def _carry_out(self, step: Step) -> None:
        self._calls.probe(step.probes)
        for number, address in step.tries:
            call = self._calls.open(address, self._start)
            self._tries[number] = call
            call.add_done_callback(partial(self._ended, number))

    @abstractmethod
    def _start(self, stub: Any) -> AnyTry:
        """Begin a try with a stub."""

    @abstractmethod
    def _ended(self, number: int, _: object) -> None:
        """Note the end of a try."""

    def _seconds(self) -> float:
        return max(0.0, self._deadline - self._calls.shared.clock())

    def _fail(self, number: int, error: grpc.RpcError) -> None:
        """Record the failure of a try, or raise it if the call has failed with it."""
        fault = self._calls.fault(error)
        if self._plan.failed(number, fault):
            raise self._error(error, fault) from error

    def _error(self, error: grpc.RpcError, fault: Fault) -> TranslationError:
        traits = self._method.traits
        if fault.kind is FaultKind.BROKEN and not traits.is_repeatable:
            message = f"the connection broke, and {traits.rpc} may have been carried out: {fault.message}"
            return ServerUnavailableError(message, code=StatusCode.UNAVAILABLE)
        return mapped_error(error, causes=self._calls.shared.causes)


class SessionState(Generic[AnyCalls, Call]):
    """Call that stays open for many answers, opened again elsewhere when it breaks; clients wait for its tries.

    Args:
        start: Function that begins a try with a stub.
    """

    def __init__(self, calls: AnyCalls, start: Callable[[Any], Call]) -> None:
        self._calls = calls
        self._start = start
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
        fault = self._calls.fault(error.with_traceback(None))
        deadline = None if seconds is None else self._calls.shared.clock() + seconds
        if self._plan.failed(fault, deadline=deadline):
            raise mapped_error(error, causes=self._calls.shared.causes) from error
        return fault

    def close(self) -> None:
        """Forget the try under way, which the caller has cancelled."""
        self._plan.close()

    def _begun(self, deadline: float) -> tuple[Call | None, float]:
        """Begin a try, if it is time, and return it, or the seconds to wait for another."""
        step = self._plan.open(deadline=deadline)
        self._calls.probe(step.probes)
        for _, address in step.tries:
            return self._calls.open(address, self._start), 0.0
        return None, step.wait or 0.0
