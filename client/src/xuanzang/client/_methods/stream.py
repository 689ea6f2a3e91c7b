"""Blocking stream: threads send the caller's texts, the caller's own thread receives the answers."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from typing import Protocol

import grpc

from xuanzang.client._calls.blocking import BlockingCalls, Session, Stub
from xuanzang.client._calls.metadata import CallMetadata
from xuanzang.client._errors import DeadlineExceededError, StatusCode
from xuanzang.client._methods.stream_state import StreamState
from xuanzang.client._values.results import StreamedTranslation
from xuanzang.client._values.usage import OnUsage
from xuanzang.translation.v1 import translation_pb2 as pb


class _Call(Protocol):
    """Subset of the gRPC call object that is used here."""

    def __next__(self) -> pb.StreamTranslateTextResponse: ...

    def trailing_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...

    def cancel(self) -> object: ...


class _Outbox:
    """Requests on their way to gRPC, whose threads read them: one thread for each time that the stream is opened."""

    def __init__(self, state: StreamState) -> None:
        self._state = state
        self._changed = threading.Condition()
        self._requests: deque[pb.StreamTranslateTextRequest] = deque()
        self._ended = False
        self._session = 0

    def admit(self, text: str) -> None:
        """Number a text and send it."""
        with self._changed:
            request = self._state.admit(text)
            if request is not None:
                self._requests.append(request)
                self._changed.notify_all()

    def end(self) -> None:
        """Close the sending side of the stream after what was admitted."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

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
        texts: Texts of the caller.
        state: State of the stream.
        calls: Calls of the client.
        timeout: Seconds of each wait for an answer.
        max_in_flight: Maximum number of texts sent whose results have not been yielded.
        on_usage: Receiver of what this stream has used, beside the client's.
    """

    def __init__(
        self,
        texts: Iterable[str],
        state: StreamState,
        calls: BlockingCalls,
        *,
        timeout: float,
        max_in_flight: int,
        on_usage: OnUsage | None = None,
    ) -> None:
        self._texts = texts
        self._state = state
        self._timeout = timeout
        self._on_usage = on_usage
        self._room = threading.Semaphore(max_in_flight)
        self._closed = threading.Event()
        self._outbox = _Outbox(state)
        self._calls = calls
        self._session: Session[_Call] = Session(calls, self._start)
        self._metadata = CallMetadata.of(calls.metadata)
        state.request_id = self._metadata.request_id
        self._call: _Call | None = None
        # Times that the watchdog reads, each written by one thread: start of the caller's current wait for an answer,
        # however often the stream breaks meanwhile (None: it is not waiting), and when the oldest run of unanswered
        # texts began.
        self._waiting_since: float | None = None
        self._sent_since = 0.0
        self._timed_out = False

    def run(self) -> Generator[StreamedTranslation, None, None]:
        """Open the stream and yield results until every text has one."""
        for name, target in (("feeder", self._feed), ("watchdog", self._watch)):
            threading.Thread(target=target, name=f"xuanzang-stream-{name}", daemon=True).start()
        with self._metadata.naming_errors():
            try:
                ended = False
                while not ended:
                    ended = self._read()
                    for result in self._state.take():
                        self._waiting_since = None
                        self._room.release()
                        yield result
                self._state.finish()
            finally:
                self._close()

    def _close(self) -> None:
        self._closed.set()
        self._room.release()  # wakes the feeding thread, which then sees that the stream is closed
        self._outbox.end()
        self._cancel()
        # Not left to the garbage collector: it runs once more while Python ends, when gRPC's threads are gone and may
        # have left locked what the end of a call locks.
        self._call = None
        self._session.close()

    def _cancel(self) -> None:
        call = self._call  # read once, because other threads set it
        if call is not None:
            call.cancel()

    def _feed(self) -> None:
        with self._state.feeding():
            for text in self._texts:
                self._room.acquire()
                if self._closed.is_set():
                    return
                if not self._state.waits_for_answer:
                    self._sent_since = time.monotonic()
                self._outbox.admit(text)
        self._outbox.end()

    def _read(self) -> bool:
        """Receive one answer, or open the stream again if it broke; return True at the end of the stream."""
        if self._waiting_since is None:
            self._waiting_since = time.monotonic()
        try:
            response = next(self._opened(), None)
        except grpc.RpcError as error:
            self._reopen(error)
            return self._state.is_complete
        self._waiting_since = None
        self._session.answered()
        if response is not None:
            self._state.settle(response)
            return False
        self._calls.report_usage(self._opened(), also=self._on_usage)
        return True

    def _opened(self) -> _Call:
        if self._call is None:
            call = self._session.open(seconds=self._remaining())
            self._call = call
            if self._timed_out:  # during a backoff: the watchdog has found no call to cancel
                call.cancel()
        return self._call

    def _reopen(self, error: grpc.RpcError) -> None:
        """Let the next read open the stream again, or raise the error if it is final."""
        if self._timed_out:
            message = f"no answer within {self._timeout:g} s"
            raise DeadlineExceededError(message, code=StatusCode.DEADLINE_EXCEEDED) from error.with_traceback(None)
        self._call = None
        self._state.interrupt(self._session.failed(error, seconds=self._remaining()))

    def _start(self, stub: Stub) -> _Call:
        return stub.StreamTranslateText(self._outbox.reopen(), metadata=self._metadata.pairs)

    def _watch(self) -> None:
        # gRPC's own deadline covers the whole stream; this one restarts with every answer.
        while not self._closed.wait(self._remaining()):
            if self._remaining() <= 0:
                self._timed_out = True
                self._cancel()
                return

    def _remaining(self) -> float:
        """Return the seconds until the current wait times out."""
        since = self._waiting_since
        if since is None or not self._state.waits_for_answer:
            return self._timeout
        return max(since, self._sent_since) + self._timeout - time.monotonic()
