"""Blocking stream: one thread feeds texts, one receives answers, and the caller takes results from a queue."""

from __future__ import annotations

import queue
import sys
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from typing import Protocol

import grpc

from xuanzang.client._calls.blocking import BlockingCalls, Session, Stub
from xuanzang.client._calls.metadata import CallMetadata
from xuanzang.client._methods.stream_state import TEXTS_IN_FLIGHT, End, StreamState
from xuanzang.client._values.results import OnUsage, StreamedTranslation
from xuanzang.translation.v1 import translation_pb2 as pb

# Python handles a signal that arrives just before a wait begins, such as Ctrl-C, when the wait is over.
_LONGEST_WAIT = 1.0
# gRPC ends a cancelled call at once.
_END_SECONDS = 2.0


class _Call(Protocol):
    """Subset of the gRPC call object that is used here."""

    def __iter__(self) -> Iterator[pb.StreamTranslateTextResponse]: ...

    def trailing_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...

    def cancel(self) -> object: ...


class _Outbox:
    """Requests on their way to gRPC, whose threads read them: one thread for each time that the stream is opened."""

    def __init__(self, state: StreamState) -> None:
        self._state = state
        self._changed = threading.Condition()
        self._requests: deque[pb.StreamTranslateTextRequest] = deque()
        self._ended = self._closed = False
        self._session = 0

    def admit(self, text: str) -> StreamedTranslation | None:
        """Number a text and send it; return its result if it cannot be sent."""
        with self._changed:
            admitted = self._state.admit(text)
            if isinstance(admitted, StreamedTranslation):
                return admitted
            self._requests.append(admitted)
            self._changed.notify_all()
            return None

    def end(self, *, closed: bool = False) -> None:
        """Close the sending side after the admitted texts, or the whole stream at once."""
        with self._changed:
            self._ended, self._closed = True, self._closed or closed
            self._changed.notify_all()

    def wake(self) -> None:
        """Let `wait` return."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, calls: BlockingCalls) -> bool:
        """Wait until the stream has to be open; return False if it has not, because it is complete or closed."""
        with self._changed:
            while not (self._ended or calls.closed or self._state.waits_for_answer):
                self._changed.wait()
            return not (self._closed or self._state.is_complete)

    def reopen(self) -> Iterator[pb.StreamTranslateTextRequest]:
        """Return the requests of a new session, which begins with all texts without an answer."""
        with self._changed:
            self._session += 1
            self._requests = deque(self._state.unanswered())
            self._changed.notify_all()
            return self._read(self._session)

    def _read(self, session: int) -> Iterator[pb.StreamTranslateTextRequest]:
        while True:
            with self._changed:
                while not self._requests and not self._ended and session == self._session:
                    self._changed.wait()
                if not self._requests or session != self._session:
                    return
                request = self._requests.popleft()
            yield request


class BlockingStream:
    """One stream of texts and answers, opened again on another address when it breaks.

    Args:
        max_in_flight: Maximum number of texts read whose results have not been yielded.
        on_usage: Another receiver of the stream's usage, after the client's.
    """

    def __init__(
        self,
        texts: Iterable[str],
        state: StreamState,
        calls: BlockingCalls,
        *,
        max_in_flight: int = TEXTS_IN_FLIGHT,
        on_usage: OnUsage | None = None,
    ) -> None:
        self._texts = texts
        self._state = state
        self._on_usage = on_usage
        self._room = threading.Semaphore(max_in_flight)
        self._closed = threading.Event()
        self._outbox = _Outbox(state)
        # A result holds its place in `_room` until it is yielded, so the queue is bounded.
        self._events: queue.SimpleQueue[StreamedTranslation | End[_Call] | Exception] = queue.SimpleQueue()
        self._calls = calls
        self._session: Session[_Call] = Session(calls, self._start, wait=self._closed.wait)
        self._metadata = CallMetadata.of(calls.metadata)
        state.request_id = self._metadata.request_id
        self._call: _Call | None = None

    def run(self) -> Generator[StreamedTranslation, None, None]:
        """Open the stream and yield results until every text has one."""
        feeder, receiver = (
            threading.Thread(target=target, name=f"xuanzang-stream-{target.__name__.strip('_')}", daemon=True)
            for target in (self._feed, self._receive)
        )
        self._calls.shared.addresses.listen(self._outbox.wake)
        feeder.start()
        receiver.start()
        with self._metadata.naming_errors():
            try:
                while not isinstance(event := self._next(), End):
                    for result in self._state.in_turn(event):
                        self._room.release()
                        yield result
                if event.call is not None:
                    self._calls.answered(event.call, also=self._on_usage)
                self._state.finish()
            finally:
                self._close()
                if not sys.is_finalizing():  # then no other thread runs
                    receiver.join(_END_SECONDS)

    def _close(self) -> None:
        self._calls.shared.addresses.unlisten(self._outbox.wake)
        self._closed.set()
        self._room.release()  # wakes the feeding thread, which then sees that the stream is closed
        self._outbox.end(closed=True)
        call = self._call  # read once, because the receiving thread sets it
        if call is not None:
            call.cancel()
        # Not left to the garbage collector: it runs once more while Python ends, when gRPC's threads are gone and may
        # have left locked what the end of a call locks.
        self._call = None

    def _next(self) -> StreamedTranslation | End[_Call]:
        """Wait for the next event.

        Raises:
            DeadlineExceededError: A text has waited too long for its answer.
            Exception: The stream failed.
        """
        with self._state.waiting():
            while True:
                try:
                    event = self._events.get(timeout=min(max(0.0, self._state.seconds_left), _LONGEST_WAIT))
                    break
                except queue.Empty:
                    self._state.require_time()
        if not isinstance(event, Exception):
            return event
        try:
            raise event
        finally:
            del event  # this frame would keep its own error, and with it the call

    def _feed(self) -> None:
        with self._state.feeding():
            for text in self._texts:
                self._room.acquire()
                if self._closed.is_set():
                    return
                refused = self._outbox.admit(text)
                if refused is not None:
                    self._events.put(refused)
        self._outbox.end()

    def _receive(self) -> None:
        try:
            self._events.put(End(self._exchange()))
        except Exception as error:  # noqa: BLE001 - raised by the caller's thread
            self._events.put(error)
        finally:
            self._session.close()

    def _exchange(self) -> _Call | None:
        """Receive answers until the stream is complete; return the call that the server has ended."""
        while self._outbox.wait(self._calls):
            call = self._call = self._session.open(seconds=self._state.seconds_left)
            if self._closed.is_set():
                call.cancel()
            try:
                for response in call:
                    self._session.answered()
                    self._events.put(self._state.settle(response))
            except grpc.RpcError as error:
                self._call = None
                if not self._closed.is_set():
                    self._interrupt(error)
                # The error is the call itself, which this frame would keep.
                error.with_traceback(None)
            else:
                return call
        return None

    def _interrupt(self, error: grpc.RpcError) -> None:
        """Let the stream be opened again, or raise the error if it is final."""
        seconds = self._state.seconds_left if self._state.waits_for_answer else None
        for result in self._state.interrupt(self._session.failed(error, seconds=seconds)):
            self._events.put(result)

    def _start(self, stub: Stub) -> _Call:
        return stub.StreamTranslateText(self._outbox.reopen(), metadata=self._metadata.pairs)
