"""Translation of documents: they are read and written in other processes, and their texts translated by the server."""

from __future__ import annotations

from collections.abc import Sequence

from xuanzang.client import AsyncTranslationClient, DocumentTranslation, TranslateOptions
from xuanzang.documents import DocumentFile, Limits
from xuanzang.gateway.documents.processes import DocumentProcesses
from xuanzang.gateway.limits import Holder, SharedLimits
from xuanzang.gateway.settings import Settings

_TIMES_EXPANDED = 8
"""Maximum size of a decompressed file, by that of a compressed one."""
_MAX_TEXTS = 100_000


class DocumentTranslator:
    """Translates documents of callers. Belongs to one event loop."""

    def __init__(self, settings: Settings, limits: SharedLimits) -> None:
        """Start nothing yet."""
        size = settings.max_document_bytes
        self._limits = Limits(file_bytes=size, expanded_bytes=_TIMES_EXPANDED * size, units=_MAX_TEXTS)
        self._seconds = settings.request_timeout_seconds
        self._processes = DocumentProcesses(
            processes=limits.document_processes,
            cpu_seconds=settings.document_cpu_seconds,
            memory_bytes=settings.document_memory_bytes,
        )

    async def translate(
        self,
        content: bytes,
        options: TranslateOptions,
        *,
        suffix: str,
        client: AsyncTranslationClient,
        holder: Holder,
        columns: Sequence[str] = (),
    ) -> DocumentTranslation:
        """Translate a document.

        Args:
            holder: Who asks for it; callers share the processes.
            columns: Names of the columns or keys to translate; none: all, where the format allows it.

        Raises:
            DocumentError: The file is not of its format, is over a limit, or needs an argument.
            TranslationError: The server could not be reached, failed, or refused more than single texts.
        """
        file = DocumentFile.of(
            content,
            suffix=suffix,
            columns=columns or None,
            limits=self._limits,
            target_language=options.get("target_language"),
        )
        texts = await self._processes.texts(file, holder=holder)
        found = await client.translate_document_texts(texts, timeout=self._seconds, **options)
        written = await self._processes.written(file, found.translations, holder=holder)
        return DocumentTranslation(content=written, summary=found.summary)

    async def close(self) -> None:
        """End all processes."""
        await self._processes.close()
