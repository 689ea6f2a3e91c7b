"""Client for asyncio."""

# ruff: noqa: ASYNC109 - these timeouts are sent to the server as deadlines, which asyncio.timeout cannot do

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from xuanzang.client._calls.waits import AsyncWaits
from xuanzang.client._client import TranslationClient
from xuanzang.client._methods.core import ClientCore
from xuanzang.client._methods.stream import TEXTS_IN_FLIGHT
from xuanzang.client._values.capsule import Capsule
from xuanzang.client._values.explanations import AttentionKind, Explanation
from xuanzang.client._values.options import described_by
from xuanzang.client._values.replay import Replay
from xuanzang.client._values.results import (
    DetectedLanguage,
    DocumentTranslation,
    ProgressiveTranslation,
    StoredGlossary,
    StreamedTranslation,
    Translation,
)
from xuanzang.values.models import Model
from xuanzang.values.options import ExplainOptions, Glossary, TranslateOptions

if TYPE_CHECKING:
    from xuanzang.documents import DocumentTexts, Limits, OnProgress, TranslatedTexts, TranslationMemory


@described_by(TranslationClient)
class AsyncTranslationClient(ClientCore):
    """Asyncio client of one or several xuanzang servers; tasks of one event loop may share it.

    Create it while the event loop is running. Its arguments and methods are those of `TranslationClient`; calls are
    awaited, `translate_progressively` and `translate_stream` are asynchronous generators, and texts of a stream may
    come from an asynchronous iterable, too.
    """

    _waits = AsyncWaits

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._calls.close()

    async def translate(
        self, texts: Sequence[str], *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> list[Translation]:
        return await self._translated(texts, timeout, **options)

    async def translate_one(
        self, text: str, *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> Translation:
        return await self._translated_one(text, timeout, **options)

    def translate_progressively(
        self, text: str, *, timeout: float | None = None, **options: Unpack[TranslateOptions]
    ) -> AsyncGenerator[ProgressiveTranslation, None]:
        return self._parts(text, timeout, **options)

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
        attention = {"attention_kinds": attention_kinds, "attention_layers": attention_layers}
        return await self._explained(text, timeout, attention_heads=attention_heads, **attention, **options)

    async def detect_languages(
        self, texts: Sequence[str], *, timeout: float | None = None
    ) -> list[list[DetectedLanguage]]:
        return await self._detected(texts, timeout)

    async def replay(self, capsule: Capsule, *, timeout: float | None = None) -> list[Replay]:
        return await self._replayed(capsule, timeout)

    async def list_models(self, *, timeout: float | None = None) -> list[Model]:
        return await self._models(timeout)

    async def translate_document(
        self,
        source: str | Path | bytes,
        *,
        suffix: str | None = None,
        encoding: str | None = None,
        columns: Sequence[str] | None = None,
        memory: TranslationMemory | None = None,
        on_progress: OnProgress | None = None,
        limits: Limits | None = None,
        timeout: float | None = None,
        **options: Unpack[TranslateOptions],
    ) -> DocumentTranslation:
        reading = {"suffix": suffix, "encoding": encoding, "columns": columns, "limits": limits}
        others: Any = {"memory": memory, "on_progress": on_progress, **options}
        return await self._document(source, timeout, reading=reading, **others)

    async def translate_document_texts(
        self,
        texts: DocumentTexts,
        *,
        memory: TranslationMemory | None = None,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
        **options: Unpack[TranslateOptions],
    ) -> TranslatedTexts:
        return await self._document_texts(texts, timeout, memory=memory, on_progress=on_progress, **options)

    async def list_glossaries(self, *, timeout: float | None = None) -> list[StoredGlossary]:
        return await self._glossaries(timeout)

    async def list_glossary_entries(self, name: str, *, timeout: float | None = None) -> dict[str, tuple[str, ...]]:
        return await self._glossary_entries(name, timeout)

    async def create_glossary(
        self,
        name: str,
        entries: Glossary,
        *,
        source_language: str,
        target_language: str,
        version: str = "",
        display_name: str = "",
        replace: bool = False,
        timeout: float | None = None,
    ) -> StoredGlossary:
        about = {"version": version, "display_name": display_name, "replace": replace}
        languages = (source_language, target_language)
        return await self._created(name, entries, timeout, languages=languages, **about)

    async def delete_glossary(self, name: str, *, timeout: float | None = None) -> None:
        await self._deleted(name, timeout)
