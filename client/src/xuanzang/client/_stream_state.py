"""The bookkeeping of one stream, the same for both clients; it neither waits nor speaks gRPC."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from xuanzang.client._errors import InvalidRequestError, ServerFaultError, StatusCode, TranslationError
from xuanzang.client._requests import stream_request
from xuanzang.client._responses import streamed_result
from xuanzang.client._types import StreamedTranslation, Translation
from xuanzang.translation.v1 import translation_pb2 as pb


class StreamState:
    """Which texts are on their way, which results wait for their turn, and whether anything got lost.

    The feeding side (`feeding`, `admit`) and the reading side (`settle`, `take`, `finish`) may be two threads: each
    attribute is written by one of them, or passed on by single atomic operations of a dict or deque.
    """

    def __init__(self, template: pb.TranslateTextRequest, *, ordered: bool) -> None:
        self._template = template
        self._ordered = ordered
        self._admitted = 0
        self._exhausted = False
        self._source_error: Exception | None = None
        self._pending: dict[str, tuple[int, str]] = {}  # by id on the wire: index and text
        self._refused: deque[StreamedTranslation] = deque()  # never sent: they cannot be written on the wire
        self._done: dict[int, StreamedTranslation] = {}
        self._taken = 0

    @property
    def waits_for_answer(self) -> bool:
        """Whether a text was sent and not yet answered."""
        return bool(self._pending)

    @contextmanager
    def feeding(self) -> Iterator[None]:
        """Surround the loop over the caller's iterable: what it raises is kept for the reading side."""
        try:
            yield
            self._exhausted = True
        except Exception as error:  # noqa: BLE001 - it is the caller's own; gRPC would swallow it, `finish` raises it
            self._source_error = error

    def admit(self, text: str) -> pb.StreamTranslateTextRequest | None:
        """Number a text and make its message; None if it cannot be written on the wire."""
        index = self._admitted
        self._admitted += 1
        try:
            request = stream_request(self._template, index=index, text=text)
        except InvalidRequestError as error:
            self._refused.append(StreamedTranslation(index=index, source=text, result=error))
            return None
        self._pending[request.id] = (index, text)
        return request

    def settle(self, response: pb.StreamTranslateTextResponse) -> None:
        """Take in an answer.

        Raises:
            ServerFaultError: Nobody asked for it.
        """
        result: Translation | TranslationError = streamed_result(response)
        index, source = self._pending.pop(response.id, (None, ""))
        if index is None:
            raise ServerFaultError(f"the server answered an unknown id {response.id!r}", code=StatusCode.INTERNAL)
        self._done[index] = StreamedTranslation(index=index, source=source, result=result)

    def take(self) -> Iterator[StreamedTranslation]:
        """Hand out the results whose turn it is."""
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
        """Check, once the server has ended the stream, that nothing got lost.

        Raises:
            Exception: What the caller's iterable raised; every text before it has been answered.
            ServerFaultError: The server ended the stream too early.
        """
        if self._pending or not (self._exhausted or self._source_error):
            raise ServerFaultError(
                f"the server ended the stream with {len(self._pending)} texts unanswered", code=StatusCode.INTERNAL
            )
        if self._source_error is not None:
            raise self._source_error
