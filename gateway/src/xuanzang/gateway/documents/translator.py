"""Translation of documents: other processes read and write them, and the server translates their texts."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus

from xuanzang.client import AsyncTranslationClient, DocumentTranslation, TranslateOptions
from xuanzang.documents import DocumentError, DocumentFile, DocumentTexts, Limits, Refusal, WrittenFile
from xuanzang.gateway.documents.worker import BEGUN, LENGTH_BYTES, Facts, Outcome, file_facts, give_back_memory, message
from xuanzang.gateway.errors import Fault, RefusedError
from xuanzang.gateway.limits import Holder, SharedLimit, SharedLimits
from xuanzang.gateway.settings import Settings

_LOGGER = logging.getLogger(__name__)
WORKER = "xuanzang.gateway.documents.worker"
"""Module that a process runs."""


class DocumentCostError(DocumentError):
    """A document takes too much time or memory; the message holds nothing of it."""


class _NotBegunError(Exception):
    """A process has ended before it got its message."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class DocumentProcesses:
    """Reads and writes documents in other processes, each within limits; one whose work is cancelled is killed.

    Belongs to one event loop. Processes start when they are needed, and then take one document after the other.
    """

    def __init__(self, *, processes: SharedLimit, cpu_seconds: float, memory_bytes: int, worker: str = WORKER) -> None:
        """Start nothing yet.

        Args:
            processes: Limit of the processes at work, shared by callers.
            cpu_seconds: Maximum CPU time of reading or writing one document.
        """
        self._worker = worker
        self._cpu_seconds = cpu_seconds
        self._memory_bytes = memory_bytes
        self._processes = processes
        self._idle: list[Process] = []
        self._all: set[Process] = set()

    async def texts(self, file: DocumentFile, *, holder: Holder) -> DocumentTexts:
        """Return the texts of a file.

        Args:
            holder: Who asks for it; callers share the processes.

        Raises:
            DocumentError: As `DocumentFile.texts`, or it takes too much time or memory.
            RefusedError: It failed otherwise.
        """
        result, _ = await self.run("texts", {"file": file_facts(file)}, file.content, holder=holder)
        # JSON has no tuples.
        return DocumentTexts(
            places=result["places"],
            counts=result["counts"],
            placeholders=tuple(result["placeholders"]),
            is_html=result["is_html"],
            ordered=tuple(result["ordered"]),
        )

    async def written(self, file: DocumentFile, translations: Mapping[str, str], *, holder: Holder) -> WrittenFile:
        """Return a file with translations.

        Raises:
            DocumentError: As `DocumentFile.rewritten`, or it takes too much time or memory.
            RefusedError: It failed otherwise.
        """
        arguments = {"file": file_facts(file), "translations": dict(translations)}
        result, content = await self.run("written", arguments, file.content, holder=holder)
        return WrittenFile(content=content, refusals=tuple(Refusal(**each) for each in result["refusals"]))

    async def run(self, work: str, arguments: Facts, content: bytes, *, holder: Holder) -> tuple[Facts, bytes]:
        """Do some work in another process, once one is free.

        Args:
            work: Name of the work, of `WORKS` of the worker.

        Raises:
            DocumentCostError: It takes too much time or memory.
            DocumentError: The work raises it.
            RefusedError: The work failed.
        """
        async with self._processes.turn(holder):
            outcome, file = await self._asked(message({"work": work, **arguments}, content))
            give_back_memory()
        if outcome.refusal:
            raise (DocumentCostError if outcome.is_costly else DocumentError)(outcome.refusal)
        if outcome.failure:
            kind, where = outcome.failure
            _LOGGER.error("a document could not be read or written", extra={"type": kind, "where": where})
            raise RefusedError(Fault(status=HTTPStatus.INTERNAL_SERVER_ERROR, message="the gateway failed"))
        return outcome.result, file

    async def close(self) -> None:
        """End all processes."""
        for process in list(self._all):
            await self._end(process)

    async def _asked(self, request: bytes) -> tuple[Outcome, bytes]:
        while self._idle:
            # A process that was killed while idle has not begun; the next one is asked.
            with suppress(_NotBegunError):
                return await self._asked_of(self._idle.pop(), request)
        try:
            return await self._asked_of(await self._started(), request)
        except _NotBegunError as error:
            raise DocumentCostError(self._reason(error.status)) from error

    async def _asked_of(self, process: Process, request: bytes) -> tuple[Outcome, bytes]:
        stays = False
        try:
            if not await _begun(process, request):
                raise _NotBegunError(await process.wait())
            outcome, file = await _outcome(process)
            stays = not outcome.is_last
        except (asyncio.IncompleteReadError, ConnectionError):
            raise DocumentCostError(self._reason(await process.wait())) from None
        finally:
            if stays:
                self._idle.append(process)
            else:
                await self._end(process)
        return outcome, file

    async def _started(self) -> Process:
        limits = str(self._cpu_seconds), str(self._memory_bytes)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", self._worker, *limits), stdin=PIPE, stdout=PIPE, stderr=DEVNULL
        )
        self._all.add(process)
        return process

    async def _end(self, process: Process) -> None:
        self._all.discard(process)
        if process.returncode is None:
            process.kill()
        await process.wait()

    def _reason(self, status: int) -> str:
        if status == -signal.SIGPROF:
            return f"it takes more than {self._cpu_seconds:g} seconds of CPU time to read or to write"
        _LOGGER.warning("a document has ended its process", extra={"status": status})
        return f"it cannot be read or written within {self._memory_bytes} bytes of memory"


async def _begun(process: Process, request: bytes) -> bool:
    """Send a message, and return whether the process has begun to read it."""
    source, target = process.stdout, process.stdin
    if source is None or target is None:
        return False
    # It may be incomplete if the process has ended: then its answer will be missing.
    with suppress(ConnectionError):
        target.write(request)
        await target.drain()
    return await source.read(len(BEGUN)) == BEGUN


async def _outcome(process: Process) -> tuple[Outcome, bytes]:
    source = process.stdout
    if source is None:
        raise ConnectionError
    lengths = [int.from_bytes(await source.readexactly(LENGTH_BYTES)) for _ in range(2)]
    head, file = [await source.readexactly(length) for length in lengths]
    return Outcome(**json.loads(head)), file


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
        return DocumentTranslation(content=written.content, summary=found.summary.with_refusals_of(written))

    async def close(self) -> None:
        """End all processes."""
        await self._processes.close()
