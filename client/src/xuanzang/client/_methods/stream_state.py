"""Texts of one stream and their results, for both clients; free of waiting and gRPC calls."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from xuanzang.client._errors import (
    DeadlineExceededError,
    InvalidRequestError,
    ServerFaultError,
    ServerUnavailableError,
    StatusCode,
    TranslationError,
)
from xuanzang.client._messages.requests import stream_request
from xuanzang.client._messages.responses import streamed_result
from xuanzang.client._reliability.tries import Fault, FaultKind
from xuanzang.client._values.results import StreamedTranslation, Translation
from xuanzang.translation.v1 import translation_pb2 as pb

TEXTS_IN_FLIGHT = 128
"""Texts of a stream that were sent and have no answer yet, unless the caller says otherwise."""
# A text that ends the connection each time must not end it each time.
_MAX_BREAKS = 3


Call = TypeVar("Call")


class End(Generic[Call]):
    """Event after the last result."""

    def __init__(self, call: Call | None) -> None:
        self.call = call
        """Call that the server has ended; None if the last texts needed none."""


@dataclass(slots=True)
class _Pending:
    index: int
    text: str
    breaks: int = 0
    """Connections that broke while the text was under way."""


class StreamState:
    """Texts in flight, and results that wait for their turn.

    Three sides use it, which may be three threads: the feeder (`feeding`, `admit`), the receiver (`settle`,
    `interrupt`, `unanswered`) and the caller (`in_turn`, `finish`). The first two share a dict of texts in flight and
    change it by single atomic operations; every other attribute is changed by one side.

    Args:
        ordered: Whether results come in the order of the texts.
        timeout: Seconds of each wait of the caller for an answer; the wait for its next text does not count.
    """

    def __init__(self, settings: pb.TranslationSettings, *, ordered: bool, timeout: float) -> None:
        self._settings = settings
        self._ordered = ordered
        self._timeout = timeout
        # Start of the caller's wait (None: it does not wait), and of the present run of unanswered texts.
        self._waiting_since: float | None = None
        self._sent_since = 0.0
        self._admitted = 0
        self._exhausted = False
        self._source_error: BaseException | None = None
        self._pending: dict[str, _Pending] = {}  # by id on the wire
        self._done: dict[int, StreamedTranslation] = {}
        self._taken = 0
        self.request_id: str | None = None
        """Id of the stream, for the errors of its texts."""

    @property
    def waits_for_answer(self) -> bool:
        """True if a text was admitted and has no answer yet."""
        return bool(self._pending)

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
        if since is None or not self.waits_for_answer:
            return self._timeout
        return max(since, self._sent_since) + self._timeout - time.monotonic()

    def require_time(self) -> None:
        """Check that no text has waited too long for its answer.

        Raises:
            DeadlineExceededError: One has.
        """
        if self.seconds_left <= 0:
            message = f"no answer within {self._timeout:g} s"
            raise DeadlineExceededError(message, code=StatusCode.DEADLINE_EXCEEDED) from None

    @property
    def is_complete(self) -> bool:
        """True if every text of the caller has a result and the source is exhausted."""
        return not self._pending and (self._exhausted or self._source_error is not None)

    @contextmanager
    def feeding(self) -> Iterator[None]:
        """Keep an exception of the caller's iterable for `finish`."""
        try:
            yield
            self._exhausted = True
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - the caller's own, raised by `finish`
            self._source_error = error

    def admit(self, text: str) -> pb.StreamTranslateTextRequest | StreamedTranslation:
        """Number a text and return its message, or its result if it cannot be encoded."""
        index = self._admitted
        self._admitted += 1
        try:
            request = stream_request(self._settings, index=index, text=text)
        except InvalidRequestError as error:
            return StreamedTranslation(index=index, source=text, result=error)
        if not self._pending:
            self._sent_since = time.monotonic()
        self._pending[request.id] = _Pending(index, text)
        return request

    def settle(self, response: pb.StreamTranslateTextResponse) -> StreamedTranslation:
        """Return the result in an answer.

        Raises:
            ServerFaultError: No text with this id is waiting for an answer, or the answer is empty.
        """
        if response.id not in self._pending:
            raise ServerFaultError(f"the server answered an unknown id {response.id!r}", code=StatusCode.INTERNAL)
        return self._result(response.id, streamed_result(response, self._settings, self._pending[response.id].text))

    def unanswered(self) -> Iterator[pb.StreamTranslateTextRequest]:
        """Yield the message of every text without an answer, in their order, to be sent again."""
        for each in sorted(self._pending.values(), key=lambda pending: pending.index):
            yield stream_request(self._settings, index=each.index, text=each.text)

    def interrupt(self, fault: Fault) -> Iterator[StreamedTranslation]:
        """Record the end of a connection; yield an error for each text that was under way too often."""
        if fault.kind is not FaultKind.BROKEN:
            return
        for key, each in list(self._pending.items()):
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
        while self._taken in self._done:
            self._taken += 1
            yield self._done.pop(self._taken - 1)

    def finish(self) -> None:
        """Check, after the stream has ended, that every text has a result.

        Raises:
            Exception: An exception of the caller's iterable; every text before it has a result.
            ServerFaultError: The server ended the stream too early.
        """
        if not self.is_complete:
            raise ServerFaultError(
                f"the server ended the stream with {len(self._pending)} texts unanswered", code=StatusCode.INTERNAL
            )
        if self._source_error is not None:
            raise self._source_error

    def _result(self, key: str, result: Translation | TranslationError) -> StreamedTranslation:
        each = self._pending.pop(key)
        if isinstance(result, TranslationError):
            result.request_id = self.request_id
        return StreamedTranslation(index=each.index, source=each.text, result=result)
