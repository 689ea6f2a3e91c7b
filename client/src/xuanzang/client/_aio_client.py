"""Client for asyncio: the methods of the blocking client, awaited."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Iterable
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from xuanzang.client._calls.waits import AsyncWaits
from xuanzang.client._client import TranslationClient
from xuanzang.client._methods.core import ClientCore
from xuanzang.client._methods.stream import TEXTS_IN_FLIGHT
from xuanzang.client._values.results import ProgressiveTranslation, StreamedTranslation
from xuanzang.values.options import TranslateOptions

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _awaited(
    method: Callable[Concatenate[TranslationClient, Arguments], Result],
) -> Callable[Concatenate[AsyncTranslationClient, Arguments], Coroutine[Any, Any, Result]]:
    """Return a coroutine function that awaits a method of the blocking client, which returns a coroutine here."""

    @wraps(method)
    async def call(self: Any, /, *arguments: Any, **named: Any) -> Any:
        return await method(self, *arguments, **named)  # type: ignore[misc]

    return call


class AsyncTranslationClient(ClientCore):
    """Asyncio client of one or several xuanzang servers; tasks of one event loop may share it.

    Create it while the event loop is running. Its arguments and methods are those of `TranslationClient`; calls are
    awaited, `translate_progressively` and `translate_stream` are asynchronous generators, and texts of a stream may
    come from an asynchronous iterable, too.
    """

    _waits = AsyncWaits
    _run = staticmethod(lambda work: work)  # where the blocking client runs a coroutine to its end

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    close = _awaited(TranslationClient.close)
    translate = _awaited(TranslationClient.translate)
    translate_one = _awaited(TranslationClient.translate_one)

    def translate_progressively(
        self, text: str, *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> AsyncGenerator[ProgressiveTranslation, None]:
        return self._parts(text, timeout, **options)

    translate_progressively.__doc__ = TranslationClient.translate_progressively.__doc__

    def translate_stream(
        self,
        texts: Iterable[str] | AsyncIterable[str],
        *,
        ordered: bool = False,
        max_in_flight: int = TEXTS_IN_FLIGHT,
        timeout: float | None = None,
        **options: Unpack[TranslateOptions],
    ) -> AsyncGenerator[StreamedTranslation, None]:
        return self._streamed(texts, timeout, ordered=ordered, max_in_flight=max_in_flight, **options)

    translate_stream.__doc__ = TranslationClient.translate_stream.__doc__

    explain = _awaited(TranslationClient.explain)
    detect_languages = _awaited(TranslationClient.detect_languages)
    replay = _awaited(TranslationClient.replay)
    list_models = _awaited(TranslationClient.list_models)
    translate_document = _awaited(TranslationClient.translate_document)
    translate_document_texts = _awaited(TranslationClient.translate_document_texts)
    list_glossaries = _awaited(TranslationClient.list_glossaries)
    list_glossary_entries = _awaited(TranslationClient.list_glossary_entries)
    create_glossary = _awaited(TranslationClient.create_glossary)
    delete_glossary = _awaited(TranslationClient.delete_glossary)
