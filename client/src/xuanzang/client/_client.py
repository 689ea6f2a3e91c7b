"""The client for ordinary, blocking Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Self, Unpack

import grpc

from xuanzang.client import _channel, _requests, _responses
from xuanzang.client._progressive import read_parts
from xuanzang.client._status import mapped_errors
from xuanzang.client._stream import BlockingStream
from xuanzang.client._stream_state import StreamState
from xuanzang.client._types import (
    Model,
    ProgressiveTranslation,
    StreamedTranslation,
    TLSConfig,
    TranslateOptions,
    Translation,
)
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2_grpc


class TranslationClient:
    """Translates through one or several xuanzang servers; threads may share it.

    Calls that no server has begun to work on are tried again, up to five times, within their timeout.

    Args:
        address: "host:port", whose addresses are used in turn if the name has several, or a sequence of "ip:port".
        tls: How to secure the connection; None: plain text.
        timeout: Seconds that a call may take, retries included, where it is not told otherwise.
        client_id: Who calls, for a server that gives every caller an equal share, such as "nightly-import"; None: who
            shares our network address is the same caller.
        max_message_bytes: Largest message to send or take.

    Raises:
        ValueError: An address, the timeout or the client_id makes no sense.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        tls: TLSConfig | None = None,
        timeout: float = 60.0,
        client_id: str | None = None,
        max_message_bytes: int = _channel.MAX_MESSAGE_BYTES,
    ) -> None:
        self._timeout = _channel.positive_timeout(timeout)
        self._metadata = _channel.metadata(client_id)
        target, options = _channel.target(address), _channel.options(max_message_bytes=max_message_bytes, tls=tls)
        if tls is None:
            self._channel = grpc.insecure_channel(target, options)
        else:
            self._channel = grpc.secure_channel(target, _channel.credentials(tls), options)
        self._open_stub: translation_pb2_grpc.TranslationServiceStub | None
        self._open_stub = translation_pb2_grpc.TranslationServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; calls under way end with CallCancelledError."""
        self._open_stub = None
        self._channel.close()

    def translate(
        self, texts: Sequence[str], *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> list[Translation]:
        """Translate some texts, all or none.

        Args:
            texts: At most 1024; for more, and for files, there is `translate_stream`.
            timeout: Seconds for the whole call; None: the client's.
            options: See TranslateOptions.

        Returns:
            One translation per text, in the same order.

        Raises:
            TranslationError: The server refused or failed, or could not be reached in time.
        """
        request = _requests.translate_request(texts, **options)
        if not request.contents:
            return []
        with mapped_errors():
            response = self._stub.TranslateText(request, timeout=self._seconds(timeout), metadata=self._metadata)
        return _responses.translations(response, expected=len(request.contents))

    def translate_one(
        self, text: str, *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> Translation:
        """Translate one text; see `translate`."""
        return self.translate([text], timeout=timeout, **options)[0]

    def translate_progressively(
        self, text: str, *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> Iterator[ProgressiveTranslation]:
        """Translate one text and yield each part of the translation as soon as it is certain.

        The call is made when the first part is asked for; leaving early cancels it.

        Args:
            text: In the source language; it may hold many sentences.
            timeout: Seconds for the whole call; None: the client's.
            options: See TranslateOptions.

        Raises:
            TranslationError: The server refused or failed, or could not be reached in time; what was yielded stands.
        """
        request = _requests.progressive_request(text, **options)
        rpc = self._stub.TranslateTextProgressively
        return read_parts(partial(rpc, request, timeout=self._seconds(timeout), metadata=self._metadata))

    def translate_stream(
        self,
        texts: Iterable[str],
        *,
        ordered: bool = False,
        max_in_flight: int = 128,
        timeout: float | None = None,
        **options: Unpack[TranslateOptions],
    ) -> Iterator[StreamedTranslation]:
        """Translate texts as they come, however many; the stream opens when the first result is asked for.

        A text that the server refuses yields a result with `error`, and the stream goes on.

        Args:
            texts: Read from another thread, only as far ahead as `max_in_flight`. What it raises is raised here, after
                the results of the texts before.
            ordered: Whether results come in the order of the texts instead of as they finish.
            max_in_flight: Most texts read and not yet given back.
            timeout: Seconds to wait for the next answer while a text is unanswered; None: the client's.
            options: See TranslateOptions.

        Raises:
            TranslationError: The stream as a whole failed.
        """
        if max_in_flight < 1:
            raise ValueError(f"max_in_flight must be at least 1, not {max_in_flight}")
        state = StreamState(_requests.translate_request((), **options), ordered=ordered)
        stream = BlockingStream(texts, state, timeout=self._seconds(timeout), max_in_flight=max_in_flight)
        return stream.run(partial(self._stub.StreamTranslateText, metadata=self._metadata))

    def list_models(self, *, timeout: float | None = None) -> list[Model]:
        """List the models that the server offers.

        Raises:
            TranslationError: The server could not be reached in time.
        """
        with mapped_errors():
            return _responses.models(
                self._stub.ListModels(pb.ListModelsRequest(), timeout=self._seconds(timeout), metadata=self._metadata)
            )

    @property
    def _stub(self) -> translation_pb2_grpc.TranslationServiceStub:
        if self._open_stub is None:
            raise RuntimeError("the client is closed")
        return self._open_stub

    def _seconds(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else _channel.positive_timeout(timeout)
