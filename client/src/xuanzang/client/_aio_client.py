"""Client for asyncio."""

# Written by client/generate_asyncio.py from _client.py: change that file, and run the script.
# ruff: noqa: ASYNC109 - these timeouts are sent to the server as deadlines, which asyncio.timeout cannot do

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Sequence
from types import TracebackType
from typing import Self, Unpack

from xuanzang.client._calls import methods
from xuanzang.client._calls.aio import AsyncCalls
from xuanzang.client._messages import requests, responses
from xuanzang.client._messages.explanations import explanation, explanation_request
from xuanzang.client._methods.aio_documents import AsyncDocumentCalls
from xuanzang.client._methods.aio_glossaries import AsyncGlossaryCalls
from xuanzang.client._methods.aio_stream import AsyncStream
from xuanzang.client._methods.progressive import aio_read_parts, whole
from xuanzang.client._methods.stream_state import TEXTS_IN_FLIGHT, StreamState
from xuanzang.client._values.capsule import PROGRESSIVE_METHOD, Capsule, Exchange, messages
from xuanzang.client._values.explanations import AttentionKind, Explanation
from xuanzang.client._values.options import lists_options
from xuanzang.client._values.replay import Replay, compared
from xuanzang.client._values.results import (
    DetectedLanguage,
    ProgressiveTranslation,
    StreamedTranslation,
    Translation,
)
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.values.models import Model
from xuanzang.values.options import ExplainOptions, TranslateOptions


class AsyncTranslationClient(AsyncDocumentCalls, AsyncGlossaryCalls):
    """Asyncio client of one or several xuanzang servers; tasks of one event loop may share it.

    Create it while the event loop is running. A call that a server did not answer is made again, on another address if
    there is one, within its timeout; client/README.md says when.

    Args:
        address: Server as "host:port", or several as a sequence of them; the port is 50051 if there is none. If a host
            name has several addresses, all are used in turn.
        connections: Connections to each address, 1 to 64; calls take the one with the fewest in progress. None: one,
            and once a server of several processes has answered, four for each of them, at most 16.
        tls: TLS settings; None: no encryption.
        timeout: Default time limit of a call in seconds, retries included.
        client_id: Name of the caller, such as "nightly-import", used by a busy server to divide its time; None: the
            server goes by the network address. A caller with a key is known by the key.
        api_key: Key that the server's operator has given out; None: that of the environment variable
            XUANZANG_API_KEY, if it is set; "": none. It is sent with every call, never logged and never shown.
        allow_insecure_key: Whether the key may be sent without TLS to another machine.
        max_message_bytes: Maximum size of a message, sent or received.
        on_usage: Receiver of what each call has used, called by the task that waits for the answer.
        throttle: True to hold back calls that an overloaded server would refuse, judged by its last refusals; they
            fail with OverloadedError without being sent, if they cannot wait.
        uses_proxy: Whether a proxy that the environment names may be used; never with a key in plain text.
        wait_for_server: Whether calls wait as long as their timeout for servers that have never answered; without it,
            they fail after three seconds if every address refuses connections, and at once if no server there speaks
            the same protocol.

    Raises:
        ValueError: An address, the timeout, the client_id or the key is invalid, or the key would cross a network in
            plain text.
    """

    _kind = AsyncCalls

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; calls under way end with CallCancelledError."""
        await self._calls.close()

    @lists_options(TranslateOptions)
    async def translate(
        self, texts: Sequence[str], *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> list[Translation]:
        """Translate texts, all or none.

        Args:
            texts: Texts in the source language, at most 1024; `translate_stream` takes any number.
            timeout: Time limit of the whole call in seconds; None: the client's.
            options: Keyword arguments listed in TranslateOptions.

        Returns:
            One translation per text, in the same order.

        Raises:
            TranslationError: The server refused the request, failed or could not be reached in time.
            TypeError: A lone text instead of a sequence, a value of the wrong type, or an unknown option.
        """
        request = requests.translate_request(texts, **options)
        if not request.contents:
            return []
        response = await self._open_calls.unary(methods.TRANSLATE_TEXT, request, timeout=self._seconds(timeout))
        return responses.translations(response, request)

    async def translate_one(
        self, text: str, *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> Translation:
        """Translate one text; see `translate`."""
        return (await self.translate([text], timeout=timeout, **options))[0]

    @lists_options(TranslateOptions)
    def translate_progressively(
        self, text: str, *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> AsyncGenerator[ProgressiveTranslation, None]:
        """Translate one text and yield each part of the translation as soon as it is final.

        A part never changes after it was yielded. The call starts when the first part is requested; closing the
        iterator early cancels it.

        Args:
            text: Text in the source language, of one or several sentences.
            timeout: Time limit of the whole call in seconds; None: the client's.
            options: Keyword arguments listed in TranslateOptions.

        Raises:
            TranslationError: The server refused the request, failed or could not be reached in time. Parts already
                yielded remain valid.
        """
        request = requests.progressive_request(text, **options)
        return aio_read_parts(self._open_calls, request, timeout=self._seconds(timeout))

    @lists_options(TranslateOptions)
    def translate_stream(
        self,
        texts: Iterable[str] | AsyncIterable[str],
        *,
        ordered: bool = False,
        max_in_flight: int = TEXTS_IN_FLIGHT,
        timeout: float | None = None,
        **options: Unpack[TranslateOptions],
    ) -> AsyncGenerator[StreamedTranslation, None]:
        """Translate any number of texts over one stream, which opens when the first result is requested.

        A text that the server refuses yields a result with `error`; the stream continues.

        Args:
            texts: Texts in the source language, read by another task. An exception of the iterable is raised here
                after the results of the texts before it.
            ordered: Whether results come in the order of the texts instead of as they finish.
            max_in_flight: Maximum number of texts sent whose results have not been yielded.
            timeout: Time limit in seconds of each wait for an answer; None: the client's. Waiting for the next text
                does not count.
            options: Keyword arguments listed in TranslateOptions.

        Raises:
            TranslationError: The stream as a whole failed.
            ValueError: `max_in_flight` or `timeout` is out of range.
        """
        if max_in_flight < 1:
            raise ValueError(f"max_in_flight must be at least 1, not {max_in_flight}")
        settings, seconds = requests.translation_settings(**options), self._seconds(timeout)
        state = StreamState(settings, ordered=ordered, timeout=seconds)
        return AsyncStream(texts, state, self._open_calls, max_in_flight=max_in_flight).run()

    @lists_options(ExplainOptions)
    async def explain(
        self,
        text: str,
        *,
        attention_kinds: Sequence[AttentionKind | str] = (AttentionKind.CROSS,),
        attention_layers: Sequence[int] = (),
        attention_heads: bool = False,
        timeout: float | None = None,
        **options: Unpack[ExplainOptions],
    ) -> Explanation:
        """Translate one sentence and say how its translation was found; see docs/explaining.md.

        Args:
            text: Text of one sentence.
            attention_kinds: Attention to return, such as "cross", "encoder" or "decoder", each at most once.
            attention_layers: Layers whose attention is returned, from 0; none: all.
            attention_heads: Whether attention is returned of each head, after the mean of all.
            timeout: Time limit of the whole call in seconds; None: the client's.
            options: Keyword arguments listed in ExplainOptions.

        Returns:
            The translation that `translate_one` returns for these options, and how it was found.

        Raises:
            TranslationError: The server refused the request, explains nothing, or could not be reached in time.
            TypeError: A value of the wrong type, or an unknown option.
        """
        request = explanation_request(
            text,
            attention_kinds=attention_kinds,
            attention_layers=attention_layers,
            attention_heads=attention_heads,
            **options,
        )
        response = await self._open_calls.unary(methods.EXPLAIN_TRANSLATION, request, timeout=self._seconds(timeout))
        return explanation(response)

    async def detect_languages(
        self, texts: Sequence[str], *, timeout: float | None = None
    ) -> list[list[DetectedLanguage]]:
        """Detect the languages of texts.

        Args:
            texts: Texts in any language, at most 1024; the first 1000 characters of each are looked at.
            timeout: Time limit of the whole call in seconds; None: the client's.

        Returns:
            For each text the languages that it may be in, likeliest first; none if nothing tells its language.

        Raises:
            TranslationError: The server refused the request, lacks the libraries, or could not be reached in time.
            TypeError: A lone text instead of a sequence, or an element that is no str.
        """
        request = requests.detection_request(texts)
        if not request.contents:
            return []
        response = await self._open_calls.unary(methods.DETECT_LANGUAGE, request, timeout=self._seconds(timeout))
        return responses.detections(response, expected=len(request.contents))

    async def replay(self, capsule: Capsule, *, timeout: float | None = None) -> list[Replay]:
        """Send the requests of a capsule again and compare the answers with the recorded ones.

        Args:
            capsule: Capsule, as `Capsule.read` returns it.
            timeout: Time limit of each call in seconds; None: the client's.

        Returns:
            One comparison for each request.

        Raises:
            TranslationError: The server refused a request, such as one for a model that it does not have, failed or
                could not be reached in time.
        """
        return [compared(each, await self._repeat(each, self._seconds(timeout))) for each in capsule.exchanges]

    async def list_models(self, *, timeout: float | None = None) -> list[Model]:
        """List the models that the server offers.

        Raises:
            TranslationError: The server could not be reached in time.
        """
        request = pb.ListModelsRequest()
        response = await self._open_calls.unary(methods.LIST_MODELS, request, timeout=self._seconds(timeout))
        return responses.models(response)

    async def _repeat(self, exchange: Exchange, seconds: float) -> Translation:
        request, recorded = messages(exchange)
        if recorded.provenance.method == PROGRESSIVE_METHOD:
            parts = aio_read_parts(self._open_calls, requests.progressively(request), timeout=seconds)
            return whole([part async for part in parts])
        response = await self._open_calls.unary(methods.TRANSLATE_TEXT, request, timeout=seconds)
        return responses.translations(response, request)[0]
