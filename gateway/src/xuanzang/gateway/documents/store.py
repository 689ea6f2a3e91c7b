"""Documents of callers, from their arrival until they are fetched or too old."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum

from xuanzang.client import DocumentTranslation, TranslationError
from xuanzang.documents import DocumentError
from xuanzang.gateway.errors import RefusedError, fault_of
from xuanzang.gateway.limits import Holder, SharedLimits

_LOGGER = logging.getLogger(__name__)
_ID_BYTES = 16
_KEY_BYTES = 32
_REASON_CHARACTERS = 500

Work = Callable[[], Awaitable[DocumentTranslation]]
"""Function that translates a document."""


class DocumentState(Enum):
    """State of a document."""

    QUEUED = "queued"
    TRANSLATING = "translating"
    DONE = "done"
    FAILED = "failed"


@dataclass(slots=True, kw_only=True)
class StoredDocument:
    """A document of a caller."""

    holder: Holder
    """Its caller."""
    suffix: str
    """Suffix of its file."""
    id: str = field(default_factory=lambda: secrets.token_hex(_ID_BYTES).upper())
    """Public name, in capital letters as at DeepL."""
    key: str = field(default_factory=lambda: secrets.token_hex(_KEY_BYTES).upper(), repr=False)
    """Secret required to fetch it."""
    state: DocumentState = DocumentState.QUEUED
    translation: DocumentTranslation | None = None
    """Result, once it is done."""
    reason: str = ""
    """Why it failed, for its caller."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it is done or has failed."""


class DocumentStore:
    """All documents. Belongs to one event loop."""

    def __init__(self, limits: SharedLimits, *, seconds: float) -> None:
        """Keep nothing yet.

        Args:
            limits: What callers share: documents in memory and in translation.
            seconds: Time for a translation, and then for its fetching.
        """
        self._places = limits.documents
        self._translations = limits.translations
        self._seconds = seconds
        self._kept: dict[str, StoredDocument] = {}
        self._failed: deque[StoredDocument] = deque(maxlen=max(1, limits.documents.total))
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def count(self, state: DocumentState) -> int:
        """Return the number of documents in a state."""
        return sum(each.state is state for each in self._kept.values())

    def require_room(self, holder: Holder) -> None:
        """Refuse another document of a caller when there is no place.

        Raises:
            RefusedError: As many documents are kept as may be.
        """
        self._places.require_room(holder)

    def add(self, work: Work, *, holder: Holder, suffix: str) -> StoredDocument:
        """Begin to translate a document.

        Raises:
            RefusedError: As many documents are kept as may be.
        """
        self._places.take(holder)
        document = StoredDocument(holder=holder, suffix=suffix)
        self._kept[document.id] = document
        self._tasks[document.id] = asyncio.create_task(self._translate(document, work))
        return document

    def find(self, document_id: str, key: str) -> StoredDocument | None:
        """Return a document, or None if there is none of the id that has the key."""
        found = self._kept.get(document_id)
        return found if found and hmac.compare_digest(found.key.encode(), key.encode(errors="replace")) else None

    def drop(self, document: StoredDocument) -> None:
        """Forget a document, and end its translation.

        Args:
            document: Document that `find` has returned.
        """
        if self._kept.pop(document.id, None) and document.state is not DocumentState.FAILED:
            self._places.release(document.holder)
        if task := self._tasks.pop(document.id, None):
            task.cancel()
        if timer := self._timers.pop(document.id, None):
            timer.cancel()

    async def close(self) -> None:
        """End all translations and forget everything."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for document in list(self._kept.values()):
            self.drop(document)

    async def _translate(self, document: StoredDocument, work: Work) -> None:
        try:
            async with asyncio.timeout(self._seconds), self._translations.turn(document.holder):
                document.state = DocumentState.TRANSLATING
                document.translation = await work()
            document.state = DocumentState.DONE
        except Exception as error:  # noqa: BLE001 - its fetcher is told, whatever it is
            document.reason = _reason(error)
            self._fail(document)
        finally:
            document.settled.set()
            self._tasks.pop(document.id, None)
            if document.id in self._kept:
                loop = asyncio.get_running_loop()
                self._timers[document.id] = loop.call_later(self._seconds, self.drop, document)

    def _fail(self, document: StoredDocument) -> None:
        """Keep why a document failed, and of the oldest ones not even that."""
        if document.id in self._kept:
            self._places.release(document.holder)
        document.state = DocumentState.FAILED
        if len(self._failed) == self._failed.maxlen:
            self.drop(self._failed[0])
        self._failed.append(document)


def _reason(error: Exception) -> str:
    """Return why a translation failed, for its caller alone: it may name columns and files of the document."""
    match error:
        case DocumentError():
            return str(error).removeprefix("the document: ")[:_REASON_CHARACTERS]
        case RefusedError() | TranslationError():
            return fault_of(error).description
        case TimeoutError():
            return "the translation took too long"
        case _:
            # Without the error's message, which may quote the document.
            facts = {"type": type(error).__name__, "where": traceback.format_tb(error.__traceback__)}
            _LOGGER.error("a document could not be translated", extra=facts)
            return "the gateway failed"
