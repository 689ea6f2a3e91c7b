"""The calls for a document, blocking and asynchronous."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, closing
from typing import Protocol

from xuanzang.client._errors import TranslationError
from xuanzang.client._values.results import StreamedTranslation, Translation
from xuanzang.client.documents.job import Job, TranslatedTexts, needs_retry, refusal


class _Stream(Protocol):
    def __iter__(self) -> Iterator[StreamedTranslation]: ...

    def close(self) -> object: ...


class _AsyncStream(Protocol):
    def __aiter__(self) -> AsyncIterator[StreamedTranslation]: ...

    def aclose(self) -> Awaitable[object]: ...


def translate(job: Job, stream: _Stream, again: Callable[[str], Translation]) -> TranslatedTexts:
    """Translate the texts of a document; what was translated is kept, whatever ends it.

    Args:
        job: What is to be asked.
        stream: Answers for the job's texts.
        again: Function that asks for a text once more.

    Raises:
        TranslationError: The server could not be reached, failed, or refused more than single texts.
        ValueError: The translation memory is damaged.
    """
    try:
        with closing(stream):
            for item in stream if job.pending else ():
                if job.record(item.source, _answer(item, again)):
                    job.save()
    finally:
        job.save()
    return job.finish()


async def aio_translate(
    job: Job, stream: _AsyncStream, again: Callable[[str], Awaitable[Translation]]
) -> TranslatedTexts:
    """Translate the texts of a document; see `translate`. Another thread waits for the disk."""
    if not job.pending:
        return job.finish()
    try:
        async with aclosing(stream):
            async for item in stream:
                if job.record(item.source, await _aio_answer(item, again)):
                    await asyncio.to_thread(job.save)
    finally:
        if job.has_unsaved:
            await asyncio.to_thread(job.save)
    return job.finish()


def _answer(item: StreamedTranslation, again: Callable[[str], Translation]) -> Translation | TranslationError:
    try:
        return again(item.source) if needs_retry(item) else item.translation
    except TranslationError as error:
        return refusal(error)


async def _aio_answer(
    item: StreamedTranslation, again: Callable[[str], Awaitable[Translation]]
) -> Translation | TranslationError:
    try:
        return await again(item.source) if needs_retry(item) else item.translation
    except TranslationError as error:
        return refusal(error)
