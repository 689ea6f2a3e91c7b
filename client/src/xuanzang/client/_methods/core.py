"""The core of both clients: connections, the table of RPCs, and the methods that are more than one call.

The docstrings of the methods stand in `TranslationClient`.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

import grpc
from google.protobuf.message import Message

from xuanzang.client._calls import channel
from xuanzang.client._calls.calls import Calls, Session
from xuanzang.client._calls.diagnosis import examined
from xuanzang.client._calls.metadata import CallMetadata, checked_key, is_local
from xuanzang.client._calls.status import about_glossaries, mapped_error
from xuanzang.client._calls.targets import targets
from xuanzang.client._calls.waits import Waits
from xuanzang.client._errors import TranslationError
from xuanzang.client._methods import requests, responses
from xuanzang.client._methods.stream import Stream
from xuanzang.client._reliability.first_contact import FirstContact
from xuanzang.client._reliability.tries import Method
from xuanzang.client._values.capsule import PROGRESSIVE_METHOD, Capsule, Exchange, Replay, compared, messages
from xuanzang.client._values.options import TLSConfig
from xuanzang.client._values.results import (
    DocumentTranslation,
    OnUsage,
    ProgressiveTranslation,
    StoredGlossary,
    StreamedTranslation,
    Translation,
)
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.values.options import Glossary, TranslateOptions

if TYPE_CHECKING:
    from xuanzang.client._methods.document_jobs import ServerJob
    from xuanzang.documents import DocumentTexts, OnProgress, TranslatedTexts, TranslationMemory

Request = TypeVar("Request", bound=Message)
Result = TypeVar("Result")
Value = TypeVar("Value")
Seconds = float | None
"""Time limit of a method; None: the client's."""

TRANSLATE_TEXT = Method("TranslateText", responses.translations)
DETECT_LANGUAGE = Method("DetectLanguage", responses.detections)
LIST_MODELS = Method("ListModels", responses.models)
# Servers explain few translations at a time, and slowly.
EXPLAIN_TRANSLATION = Method("ExplainTranslation", responses.explanation, may_be_hedged=False)
LIST_GLOSSARIES = Method("ListGlossaries", responses.glossaries)
# Its answer, which may be large, is read elsewhere.
LIST_GLOSSARY_ENTRIES: Method[pb.ListGlossaryEntriesRequest, pb.ListGlossaryEntriesResponse]
LIST_GLOSSARY_ENTRIES = Method("ListGlossaryEntries")
# A second execution fails because of the first.
CREATE_GLOSSARY = Method("CreateGlossary", responses.created_glossary, is_repeatable=False, may_be_hedged=False)
DELETE_GLOSSARY: Method[pb.DeleteGlossaryRequest, object]
DELETE_GLOSSARY = Method("DeleteGlossary", is_repeatable=False, may_be_hedged=False)


class ClientCore:
    """Connections of a client, and coroutines for its methods; a blocking client runs each to its end at once.

    `TranslationClient` describes the arguments.
    """

    _waits: ClassVar[type[Waits]]

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        connections: int | None = None,
        tls: TLSConfig | None = None,
        timeout: float = 60.0,
        client_id: str | None = None,
        api_key: str | None = None,
        allow_insecure_key: bool = False,
        max_message_bytes: int = channel.MAX_MESSAGE_BYTES,
        on_usage: OnUsage | None = None,
        throttle: bool = True,
        uses_proxy: bool = True,
        wait_for_server: bool = False,
    ) -> None:
        self._timeout = channel.positive_timeout(timeout)
        names = targets(address)
        self._checked_key = partial(
            checked_key, targets=names, has_tls=tls is not None, allow_insecure_key=allow_insecure_key
        )
        metadata = channel.metadata(client_id, key := self._checked_key(api_key))
        self._hides_keys = tls is not None or bool(key) or not uses_proxy
        are_proxied = _are_proxied(names, may_be=uses_proxy and (tls is not None or not key))
        options = partial(channel.options, max_message_bytes=max_message_bytes, tls=tls)
        # Channels of the process to the same address share the first connection, unless several are asked for.
        shares = connections is None or connections == 1
        opened = channel.opener((waits := self._waits()).library, tls)
        channels = {
            name: opened(each, options=options(uses_proxy=are_proxied[each], is_shared=shares and name == each))
            for name, each in channel.connections(names, connections)
        }
        contact = FirstContact(
            len(names),
            lambda number: examined(names[number], tls, uses_proxy=are_proxied[names[number]]),
            waits=wait_for_server,
        )
        used = len(names) if connections is None else None
        self._calls = Calls(waits, channels, metadata, used=used, throttled=throttle, first_contact=contact)
        self._calls.on_usage = on_usage

    def for_caller(
        self, *, api_key: str | None = None, client_id: str | None = None, request_id: str | None = None
    ) -> Self:
        """Return a client that calls on behalf of someone else, over the same connections.

        Everything but the arguments is that of this client; closing either closes both.

        Args:
            api_key: Key of the caller; None: none.
            client_id: Name of the caller, as the constructor takes it; None: none.
            request_id: Id of every call of the returned client, for the server's operator: 1 to
                128 letters, digits and "._:/+=-"; None: a random one for each call.

        Raises:
            ValueError: An argument is invalid, or the key would cross a network or a proxy in plain text.
        """
        key = self._checked_key(api_key or "")
        if key and not self._hides_keys:
            raise ValueError("an API key is not sent through a proxy in plain text: use TLS, or uses_proxy=False")
        twin = copy.copy(self)
        twin._calls = self._calls.carrying(channel.metadata(client_id, key, request_id))  # noqa: SLF001 - its own class
        return twin

    @property
    def _open_calls(self) -> Calls:
        if self._calls.closed:
            raise RuntimeError("the client is closed")
        return self._calls

    def _seconds(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else channel.positive_timeout(timeout)

    async def _call(self, method: Method[Request, Value], request: Request, limit: Seconds) -> Value:
        """Call a method; a request of no texts needs no call."""
        if not getattr(request, "contents", True):
            return cast("Value", [])
        return await self._open_calls.unary(method, request, seconds=self._seconds(limit))

    async def _translated_one(self, text: str, limit: Seconds, **options: Any) -> Translation:
        return (await self._call(TRANSLATE_TEXT, requests.translate_request([text], **options), limit))[0]

    def _parts(self, text: str, limit: Seconds, **options: Any) -> AsyncGenerator[ProgressiveTranslation, None]:
        request = requests.progressive_request(text, **options)
        return _parts_of(self._open_calls, request, seconds=self._seconds(limit))

    def _streamed(
        self,
        texts: Iterable[str] | AsyncIterable[str],
        limit: Seconds,
        *,
        ordered: bool,
        max_in_flight: int,
        **options: Any,
    ) -> AsyncGenerator[StreamedTranslation, None]:
        if max_in_flight < 1:
            raise ValueError(f"max_in_flight must be at least 1, not {max_in_flight}")
        if isinstance(texts, str | bytes):
            raise TypeError("texts must be an iterable of str, not a lone text")
        settings, seconds = requests.translation_settings(**options), self._seconds(limit)
        calls = self._open_calls
        return Stream(texts, settings, calls, ordered=ordered, seconds=seconds, max_in_flight=max_in_flight).run()

    async def _replayed(self, capsule: Capsule, limit: Seconds) -> list[Replay]:
        return [compared(each, await self._repeated(each, limit)) for each in capsule.exchanges]

    async def _repeated(self, exchange: Exchange, limit: Seconds) -> Translation:
        request, recorded = messages(exchange)
        if recorded.provenance.method == PROGRESSIVE_METHOD:
            again = requests.progressively(request)
            parts = [each async for each in _parts_of(self._open_calls, again, seconds=self._seconds(limit))]
            return responses.whole(parts[-1])
        return (await self._call(TRANSLATE_TEXT, request, limit))[0]

    async def _glossary_entries(self, name: str, limit: Seconds) -> dict[str, tuple[str, ...]]:
        request = pb.ListGlossaryEntriesRequest(name=requests.checked_text(name, path="name"))
        with about_glossaries():
            response = await self._call(LIST_GLOSSARY_ENTRIES, request, limit)
        return await self._apart(responses.glossary_entries, response)

    async def _created(self, name: str, entries: Glossary, limit: Seconds, **others: Any) -> StoredGlossary:
        request = await self._apart(requests.create_glossary, name, entries, **others)
        return await self._call(CREATE_GLOSSARY, request, limit)

    async def _deleted(self, name: str, limit: Seconds) -> None:
        request = pb.DeleteGlossaryRequest(name=requests.checked_text(name, path="name"))
        with about_glossaries():
            await self._call(DELETE_GLOSSARY, request, limit)

    async def _document(
        self,
        source: str | Path | bytes,
        limit: Seconds,
        *,
        reading: dict[str, Any],
        memory: TranslationMemory | None,
        on_progress: OnProgress | None,
        **options: Any,
    ) -> DocumentTranslation:
        from xuanzang.documents import DocumentFile  # noqa: PLC0415

        file = await self._apart(DocumentFile.of, source, target_language=options.get("target_language"), **reading)
        texts = await self._apart(file.texts)
        translated = await self._document_texts(texts, limit, memory=memory, on_progress=on_progress, **options)
        written = await self._apart(file.rewritten, translated.translations)
        return DocumentTranslation(content=written.content, summary=translated.summary.with_refusals_of(written))

    async def _document_texts(
        self,
        texts: DocumentTexts,
        limit: Seconds,
        *,
        memory: TranslationMemory | None,
        on_progress: OnProgress | None,
        **options: Any,
    ) -> TranslatedTexts:
        from xuanzang.client._methods.document_jobs import ServerJob  # noqa: PLC0415

        models = await self._call(LIST_MODELS, pb.ListModelsRequest(), limit) if memory else []
        job = await self._apart(ServerJob, texts, models, options, memory=memory, on_progress=on_progress)
        try:
            await self._translate_pending(job, limit)
        finally:
            if job.has_unsaved:
                await self._apart(job.save)
        return job.translated()

    async def _translate_pending(self, job: ServerJob, limit: Seconds) -> None:
        settings, seconds = requests.translation_settings(**job.options), self._seconds(limit)
        if not job.pending:
            return
        stream = Stream(job.pending, settings, self._open_calls, seconds=seconds, on_usage=job.count)
        async with aclosing(stream.run()) as items:
            async for item in items:
                result = await self._result_or_retry(item, job.options, limit)
                if job.record(item.source, job.answer(result)):
                    await self._apart(job.save)

    async def _result_or_retry(
        self, item: StreamedTranslation, options: TranslateOptions, limit: Seconds = None
    ) -> Translation | TranslationError:
        """Return the result of a text, asked for once more if that may help: streams retry only whole calls."""
        if item.error is None or not item.error.retryable:
            return item.result
        try:
            return await self._translated_one(item.source, limit, **options)
        except TranslationError as error:
            return error

    async def _apart(self, work: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
        """Do work that takes time and calls no server."""
        return await self._open_calls.waits.apart(work, *arguments, **named)


def _are_proxied(names: Sequence[str], *, may_be: bool) -> dict[str, bool]:
    """Return which servers are reached through a proxy: one on another machine would look there for a local server."""
    return {name: may_be and not is_local(name) for name in names}


async def _parts_of(
    calls: Calls, request: pb.TranslateTextProgressivelyRequest, *, seconds: float
) -> AsyncGenerator[ProgressiveTranslation, None]:
    """Make the call and yield the parts of its answer; closing the generator early cancels it.

    A call that fails before its first part is repeated; a later failure raises TranslationError.
    """
    deadline, metadata = calls.shared.clock() + seconds, CallMetadata.of(calls.metadata)

    def remaining() -> float:
        return max(0.0, deadline - calls.shared.clock())

    session = Session(
        calls,
        lambda stub: stub.TranslateTextProgressively(request, timeout=remaining(), metadata=metadata.pairs),
    )
    last: ProgressiveTranslation | None = None
    with metadata.naming_errors():
        call = await session.open(seconds=remaining())
        try:
            while True:
                try:
                    response = await calls.waits.read(call)
                except grpc.RpcError as error:
                    if last is not None:
                        raise mapped_error(error) from error
                    session.failed(error, seconds=remaining())
                    call = await session.open(seconds=remaining())
                    continue
                if response is None:
                    break
                session.answered()
                last = responses.progressive_translation(response, request)
                yield last
            await calls.answered(call)
            responses.whole(last)
        finally:
            call.cancel()
            session.close()
