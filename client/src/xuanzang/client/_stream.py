"""Blocking stream: a gRPC thread sends the caller's texts, the caller's own thread receives the answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from xuanzang.client._errors import CallCancelledError, DeadlineExceededError, StatusCode
from xuanzang.client._status import mapped_errors
from xuanzang.client._stream_state import StreamState
from xuanzang.client._types import StreamedTranslation
from xuanzang.translation.v1 import translation_pb2 as pb


class _Call(Protocol):
    """Subset of the gRPC call object that is used here."""

    def __next__(self) -> pb.StreamTranslateTextResponse: ...

    def cancel(self) -> object: ...


class BlockingStream:
    """One stream of texts and answers."""

    def __init__(self, texts: Iterable[str], state: StreamState, *, timeout: float, max_in_flight: int) -> None:
        self._texts = texts
        self._state = state
        self._timeout = timeout
        self._room = threading.Semaphore(max_in_flight)
        self._closed = threading.Event()
        # Times that the watchdog reads, each written by one thread: start of the caller's current wait for an answer
        # (None: it is not waiting), and when the oldest run of unanswered texts began.
        self._waiting_since: float | None = None
        self._sent_since = 0.0
        self._timed_out = False

    def run(self, rpc: Callable[[Iterator[pb.StreamTranslateTextRequest]], _Call]) -> Iterator[StreamedTranslation]:
        """Open the stream and yield results until every text has one."""
        call = rpc(self._requests())
        threading.Thread(target=self._watch, args=(call,), name="xuanzang-stream-watchdog", daemon=True).start()
        try:
            ended = False
            while not ended:
                ended = self._read(call)
                for result in self._state.take():
                    self._room.release()
                    yield result
            self._state.finish()
        finally:
            self._closed.set()
            self._room.release()  # wakes the sending thread, which then sees that the stream is closed
            call.cancel()

    def _requests(self) -> Iterator[pb.StreamTranslateTextRequest]:
        with self._state.feeding():
            for text in self._texts:
                self._room.acquire()
                if self._closed.is_set():
                    return
                if not self._state.waits_for_answer:
                    self._sent_since = time.monotonic()
                request = self._state.admit(text)
                if request is not None:
                    yield request

    def _read(self, call: _Call) -> bool:
        """Receive one answer; return True at the end of the stream."""
        with self._waiting(), mapped_errors():
            response = next(call, None)
        if response is not None:
            self._state.settle(response)
        return response is None

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        self._waiting_since = time.monotonic()
        try:
            yield
        except CallCancelledError as error:
            if not self._timed_out:
                raise
            message = f"no answer within {self._timeout:g} s"
            raise DeadlineExceededError(message, code=StatusCode.DEADLINE_EXCEEDED) from error
        finally:
            self._waiting_since = None

    def _watch(self, call: _Call) -> None:
        # gRPC's own deadline covers the whole stream; this one restarts with every answer.
        while not self._closed.wait(self._remaining()):
            if self._remaining() <= 0:
                self._timed_out = True
                call.cancel()
                return

    def _remaining(self) -> float:
        """Return the seconds until the current wait times out."""
        since = self._waiting_since
        if since is None or not self._state.waits_for_answer:
            return self._timeout
        return max(since, self._sent_since) + self._timeout - time.monotonic()
