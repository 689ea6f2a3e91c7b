"""Stream: the texts of a caller and their results over one call, opened again elsewhere when it breaks."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import grpc

from xuanzang.client._calls.calls import Calls, Session, Stub
from xuanzang.client._calls.metadata import CallMetadata
from xuanzang.client._calls.status import WRITE_MET_THE_END, mapped_error
from xuanzang.client._errors import (
    CallCancelledError,
    DeadlineExceededError,
    InvalidRequestError,
    ServerFaultError,
    ServerUnavailableError,
    StatusCode,
    TranslationError,
)
from xuanzang.client._methods.requests import stream_request
from xuanzang.client._methods.responses import streamed_result
from xuanzang.client._reliability.tries import Fault, FaultKind
from xuanzang.client._values.results import OnUsage, StreamedTranslation, Translation
from xuanzang.translation.v1 import translation_pb2 as pb

TEXTS_IN_FLIGHT = 128
"""Texts of a stream that were sent and have no answer yet, unless the caller says otherwise."""
# A text that ends the connection each time must not end it each time.
_MAX_BREAKS = 3


@dataclass(frozen=True, slots=True)
class _End:
    """Event after the last result."""

    call: Any
    """Call that the server has ended; None if the last texts needed none."""


@dataclass(slots=True)
class _Pending:
    index: int
    text: str
    breaks: int = 0
    """Connections that broke while the text was under way."""


class _TextsInFlight:
    """Texts without an answer, and results that wait for their turn.

    Three sides use it, which may be three threads: the feeder (`admit`), the receiver (`settle`, `interrupted`,
    `requests`) and the caller (`in_turn`, `waiting`). The first two share a dict of texts in flight and change it by
    single atomic operations; every other attribute is changed by one side.

    Args:
        timeout: Seconds of each wait of the caller for an answer; the wait for its next text does not count.
        request_id: Id of the stream, for the errors of its texts.
    """

    def __init__(self, settings: pb.TranslationSettings, *, ordered: bool, timeout: float, request_id: str) -> None:
        self._settings = settings
        self._ordered = ordered
        self._timeout = timeout
        self._request_id = request_id
        # Start of the caller's wait (None: it does not wait), and of the present run of unanswered texts.
        self._waiting_since: float | None = None
        self._sent_since = 0.0
        self._done: dict[int, StreamedTranslation] = {}
        self._next = 0
        self.pending: dict[str, _Pending] = {}
        """Texts without an answer, by id on the wire."""

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Measure a wait of the caller."""
        self._waiting_since = time.monotonic()
        try:
            yield
        finally:
            self._waiting_since = None

    @property
    def seconds_left(self) -> float:
        """Seconds until the caller's wait for an answer times out, or until it is time to look again."""
        since = self._waiting_since
        if since is None or not self.pending:
            return self._timeout
        return max(since, self._sent_since) + self._timeout - time.monotonic()

    def require_time(self) -> None:
        """Check that no text has waited too long for its answer.

        Raises:
            DeadlineExceededError: One has.
        """
        if self.seconds_left <= 0:
            message = f"no answer within {self._timeout:g} s"
            raise DeadlineExceededError(message, code=StatusCode.DEADLINE_EXCEEDED)

    def admit(self, index: int, text: str) -> pb.StreamTranslateTextRequest | StreamedTranslation:
        """Return the message of a text, or its result if it cannot be encoded."""
        try:
            request = stream_request(self._settings, index=index, text=text)
        except InvalidRequestError as error:
            return StreamedTranslation(index=index, source=text, result=error)
        if not self.pending:
            self._sent_since = time.monotonic()
        self.pending[request.id] = _Pending(index, text)
        return request

    def settle(self, response: pb.StreamTranslateTextResponse) -> StreamedTranslation:
        """Return the result in an answer.

        Raises:
            ServerFaultError: No text with this id is waiting for an answer, or the answer is empty.
        """
        if response.id not in self.pending:
            raise ServerFaultError(f"the server answered an unknown id {response.id!r}", code=StatusCode.INTERNAL)
        return self._result(response.id, streamed_result(response, self._settings, self.pending[response.id].text))

    def requests(self) -> deque[pb.StreamTranslateTextRequest]:
        """Return the message of every text without an answer, in their order, to be sent again."""
        texts = sorted(self.pending.values(), key=lambda pending: pending.index)
        return deque(stream_request(self._settings, index=each.index, text=each.text) for each in texts)

    def interrupted(self, fault: Fault) -> Iterator[StreamedTranslation]:
        """Record the end of a connection; yield an error for each text that was under way too often."""
        if fault.kind is not FaultKind.BROKEN:
            return
        for key, each in list(self.pending.items()):
            each.breaks += 1
            if each.breaks >= _MAX_BREAKS:
                message = (
                    f"no answer: the connection broke {each.breaks} times meanwhile, the last time: {fault.message}"
                )
                yield self._result(key, ServerUnavailableError(message, code=StatusCode.UNAVAILABLE))

    def in_turn(self, result: StreamedTranslation) -> Iterator[StreamedTranslation]:
        """Yield the results whose turn has come with this one."""
        if not self._ordered:
            yield result
            return
        self._done[result.index] = result
        while self._next in self._done:
            self._next += 1
            yield self._done.pop(self._next - 1)

    def _result(self, key: str, result: Translation | TranslationError) -> StreamedTranslation:
        each = self.pending.pop(key)
        if isinstance(result, TranslationError):
            result.request_id = self._request_id
        return StreamedTranslation(index=each.index, source=each.text, result=result)


class Stream:
    """One stream: a feeder reads texts, a receiver answers, and the caller takes results from one queue.

    A text holds its place among `max_in_flight` until its result is yielded, so the queue is bounded.

    Args:
        ordered: Whether results come in the order of the texts.
        seconds: Time limit of each wait of the caller for an answer.
        max_in_flight: Maximum number of texts read whose results have not been yielded.
        on_usage: Another receiver of the stream's usage, after the client's.
    """

    def __init__(
        self,
        source: Iterable[str] | AsyncIterable[str],
        settings: pb.TranslationSettings,
        calls: Calls,
        *,
        ordered: bool = False,
        seconds: float,
        max_in_flight: int = TEXTS_IN_FLIGHT,
        on_usage: OnUsage | None = None,
    ) -> None:
        self._source = source
        self._calls = calls
        self._metadata = CallMetadata.of(calls.metadata)
        self._texts = _TextsInFlight(settings, ordered=ordered, timeout=seconds, request_id=self._metadata.request_id)
        self._max_in_flight = max_in_flight
        self._on_usage = on_usage
        self._admitted = self._yielded = 0
        self._ended = self._closed = False  # the source; the stream
        self._source_error: BaseException | None = None
        self._lock = threading.Lock()  # of the texts in flight and their messages together
        self._requests: deque[pb.StreamTranslateTextRequest] = deque()
        self._room, self._changed = calls.waits.changes(), calls.waits.changes()
        self._events: Any = calls.waits.queue()
        self._session = Session(calls, self._start, sleep=self._sleep)
        self._call: Any = None
        self._interruption: grpc.RpcError | None = None  # the last one whose status arrived

    async def run(self) -> AsyncGenerator[StreamedTranslation, None]:
        """Open the stream and yield results until every text has one."""
        spawn = self._calls.waits.spawn
        stops = spawn(self._feed(), is_callers=True), spawn(self._receive())
        with self._calls.notified_of_close(self._changed.notify), self._metadata.naming_errors():
            try:
                while not isinstance(event := await self._next(), _End):
                    for result in self._texts.in_turn(event):
                        self._yielded += 1
                        self._room.notify()
                        yield result
                if event.call is not None:
                    await self._calls.answered(event.call, also=self._on_usage)
                self._finish()
            finally:
                self._close()
                for stop in stops:
                    await stop()

    def _close(self) -> None:
        self._ended = self._closed = True
        self._room.notify()
        self._changed.notify()
        # Not left to the garbage collector: it runs once more while Python ends, when gRPC's threads are gone and may
        # have left locked what the end of a call locks.
        call, self._call, self._interruption = self._call, None, None
        if call is not None:
            call.cancel()

    def _finish(self) -> None:
        """Check, after the stream has ended, that every text has a result.

        Raises:
            Exception: An exception of the caller's iterable; every text before it has a result.
            ServerFaultError: The server ended the stream too early.
        """
        if self._texts.pending or not self._ended:
            message = f"the server ended the stream with {len(self._texts.pending)} texts unanswered"
            raise ServerFaultError(message, code=StatusCode.INTERNAL)
        if self._source_error is not None:
            raise self._source_error

    async def _next(self) -> StreamedTranslation | _End:
        """Wait for the next event.

        Raises:
            DeadlineExceededError: A text has waited too long for its answer.
            Exception: The stream failed.
        """
        with self._texts.waiting():
            while (event := await self._events.get(self._texts.seconds_left)) is None:
                self._texts.require_time()
        if isinstance(event, StreamedTranslation | _End):
            return event
        try:
            raise event
        finally:
            del event  # this frame would keep its own error, and with it the call

    async def _feed(self) -> None:
        waits, source = self._calls.waits, cast("Iterable[str]", self._source)
        try:
            async for text in waits.each(source):
                await self._room.until(lambda: self._closed or self._admitted - self._yielded < self._max_in_flight)
                if self._closed:
                    return
                self._admit(text)
        except BaseException as error:  # noqa: BLE001 - the caller's own, raised by `_finish`; a cancellation, too
            self._source_error = error
        self._ended = True
        self._changed.notify()

    def _admit(self, text: str) -> None:
        """Number a text and send it, or yield its result if it cannot be sent."""
        index, self._admitted = self._admitted, self._admitted + 1
        with self._lock:
            admitted = self._texts.admit(index, text)
            if isinstance(admitted, pb.StreamTranslateTextRequest):
                self._requests.append(admitted)
        if isinstance(admitted, StreamedTranslation):
            self._events.put(admitted)
        else:
            self._changed.notify()

    async def _receive(self) -> None:
        try:
            self._events.put(_End(await self._exchange()))
        except Exception as error:  # noqa: BLE001 - raised by the caller
            self._events.put(error)
        finally:
            self._session.close()

    async def _exchange(self) -> Any:
        """Receive answers until the stream is complete; return the call that the server has ended, None without one."""
        while await self._has_to_be_open():
            call = self._call = await self._session.open(seconds=self._texts.seconds_left)
            if self._closed:
                call.cancel()
            try:
                while (response := await self._calls.waits.read(call)) is not None:
                    self._session.answered()
                    self._events.put(self._texts.settle(response))
            except grpc.RpcError as error:
                self._call = None
                if not self._closed:
                    self._interrupt(error)
                # The error of a blocking call is the call itself, which this frame would keep.
                error.with_traceback(None)
            else:
                return call
        return None

    async def _has_to_be_open(self) -> bool:
        """Wait until the stream has to be open; return False if it has not, because it is complete or closed."""
        await self._changed.until(lambda: self._ended or self._calls.closed or self._texts.pending)
        return not self._closed and bool(self._texts.pending or not self._ended)

    async def _sleep(self, seconds: float) -> None:
        if await self._changed.until(lambda: self._closed, seconds):
            raise CallCancelledError("the stream was closed", code=StatusCode.CANCELLED)

    def _interrupt(self, error: grpc.RpcError) -> None:
        """Let the stream be opened again, or raise the error if it is final."""
        try:
            fault = self._session.failed(error, seconds=self._texts.seconds_left if self._texts.pending else None)
        except ServerFaultError as failure:
            if failure.message != WRITE_MET_THE_END:
                raise
            # gRPC has put its own error in the place of the server's; a try before this one may have got that.
            if self._interruption is not None:
                raise mapped_error(self._interruption) from error
            message = "the server ended the stream while texts were being sent"
            raise ServerUnavailableError(message, code=StatusCode.UNAVAILABLE) from error
        for result in self._texts.interrupted(fault):
            self._events.put(result)
        if fault.message != WRITE_MET_THE_END:
            self._interruption = error

    def _start(self, stub: Stub) -> Any:
        with self._lock:
            requests = self._requests = self._texts.requests()
        self._changed.notify()
        sent: Any = self._calls.waits.requests(self._sent(requests))
        return stub.StreamTranslateText(sent, metadata=self._metadata.pairs)

    async def _sent(
        self, requests: deque[pb.StreamTranslateTextRequest]
    ) -> AsyncGenerator[pb.StreamTranslateTextRequest, None]:
        """Yield the messages of one call, until another takes its place or the texts end."""
        while True:
            await self._changed.until(lambda: requests or self._ended or requests is not self._requests)
            if not requests or requests is not self._requests:
                return
            yield requests.popleft()
