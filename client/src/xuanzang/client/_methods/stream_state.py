"""State of one stream, shared by both clients and free of waiting and gRPC calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from xuanzang.client._errors import (
    InvalidRequestError,
    ServerFaultError,
    ServerUnavailableError,
    StatusCode,
    TranslationError,
)
from xuanzang.client._messages.requests import stream_request
from xuanzang.client._messages.responses import streamed_result
from xuanzang.client._reliability.faults import Fault, FaultKind
from xuanzang.client._values.results import StreamedTranslation, Translation
from xuanzang.translation.v1 import translation_pb2 as pb

TEXTS_IN_FLIGHT = 128
"""Texts of a stream that were sent and have no answer yet, unless the caller says otherwise."""
# A text that ends the connection each time must not end it each time.
_MAX_BREAKS = 3


@dataclass(slots=True)
class _Pending:
    index: int
    text: str
    breaks: int = 0
    """Connections that broke while the text was under way."""


class StreamState:
    """Texts in flight, results that wait for their turn, and the check that none was lost.

    The sending side (`feeding`, `admit`) and the receiving side (`settle`, `take`, `finish`) may be two threads: each
    attribute is written by one of them, or changed by single atomic operations of a dict or deque.
    """

    def __init__(self, settings: pb.TranslationSettings, *, ordered: bool) -> None:
        self._settings = settings
        self._ordered = ordered
        self._admitted = 0
        self._exhausted = False
        self._source_error: Exception | None = None
        self._pending: dict[str, _Pending] = {}  # by id on the wire
        self._refused: deque[StreamedTranslation] = deque()  # never sent, because they cannot be encoded
        self._done: dict[int, StreamedTranslation] = {}
        self._taken = 0
        self.request_id: str | None = None
        """Id of the stream, for the errors of its texts."""

    @property
    def waits_for_answer(self) -> bool:
        """True if a text has been sent and not yet answered."""
        return bool(self._pending)

    @property
    def is_complete(self) -> bool:
        """True if every text of the caller has an answer and there are no more."""
        return not self._pending and (self._exhausted or self._source_error is not None)

    @contextmanager
    def feeding(self) -> Iterator[None]:
        """Keep an exception of the caller's iterable for `finish`."""
        try:
            yield
            self._exhausted = True
        except Exception as error:  # noqa: BLE001 - the caller's own; gRPC would swallow it, `finish` raises it
            self._source_error = error

    def admit(self, text: str) -> pb.StreamTranslateTextRequest | None:
        """Number a text and return its message, or None if the text cannot be encoded."""
        index = self._admitted
        self._admitted += 1
        try:
            request = stream_request(self._settings, index=index, text=text)
        except InvalidRequestError as error:
            self._refused.append(StreamedTranslation(index=index, source=text, result=error))
            return None
        self._pending[request.id] = _Pending(index, text)
        return request

    def settle(self, response: pb.StreamTranslateTextResponse) -> None:
        """Record an answer.

        Raises:
            ServerFaultError: No text with this id is waiting for an answer, or the answer is empty.
        """
        if response.id not in self._pending:
            raise ServerFaultError(f"the server answered an unknown id {response.id!r}", code=StatusCode.INTERNAL)
        self._finish_text(response.id, streamed_result(response, self._settings, self._pending[response.id].text))

    def unanswered(self) -> Iterator[pb.StreamTranslateTextRequest]:
        """Yield the message of every text without an answer, in their order, to be sent again."""
        for each in sorted(self._pending.values(), key=lambda pending: pending.index):
            yield stream_request(self._settings, index=each.index, text=each.text)

    def interrupt(self, fault: Fault) -> None:
        """Record the end of a connection; a text that was under way too often gets an error as its result."""
        if fault.kind is not FaultKind.BROKEN:
            return
        for key, each in list(self._pending.items()):
            each.breaks += 1
            if each.breaks >= _MAX_BREAKS:
                message = (
                    f"no answer: the connection broke {each.breaks} times meanwhile, the last time: {fault.message}"
                )
                self._finish_text(key, ServerUnavailableError(message, code=StatusCode.UNAVAILABLE))

    def take(self) -> Iterator[StreamedTranslation]:
        """Yield the results whose turn has come."""
        while self._refused:
            refused = self._refused.popleft()
            self._done[refused.index] = refused
        while self._done:
            index = self._taken if self._ordered else next(iter(self._done))
            if index not in self._done:
                return
            self._taken += 1
            yield self._done.pop(index)

    def finish(self) -> None:
        """Check, after the server has ended the stream, that every text was answered.

        Raises:
            Exception: An exception of the caller's iterable; every text before it has been answered.
            ServerFaultError: The server ended the stream too early.
        """
        if not self.is_complete:
            raise ServerFaultError(
                f"the server ended the stream with {len(self._pending)} texts unanswered", code=StatusCode.INTERNAL
            )
        if self._source_error is not None:
            raise self._source_error

    def _finish_text(self, key: str, result: Translation | TranslationError) -> None:
        each = self._pending.pop(key)
        if isinstance(result, TranslationError):
            result.request_id = self.request_id
        self._done[each.index] = StreamedTranslation(index=each.index, source=each.text, result=result)
