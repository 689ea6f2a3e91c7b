"""Processes that read and write documents, so that no document delays or harms anything else."""

from __future__ import annotations

import asyncio
import logging
import pickle
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar, cast

from xuanzang.client.documents import DocumentError
from xuanzang.gateway.documents.turns import Turns
from xuanzang.gateway.documents.worker import LENGTH_BYTES, Answer
from xuanzang.gateway.errors import Fault, RefusedError

_LOGGER = logging.getLogger(__name__)
# Not by -m, which would give the types of answers another module.
_WORKER = "from xuanzang.gateway.documents.worker import main; main()"

Result = TypeVar("Result")


class DocumentCostError(DocumentError):
    """A document takes too much time or memory; the message holds nothing of it."""


class DocumentProcesses:
    """Runs functions in other processes, each within limits; a function that is cancelled is killed.

    Belongs to one event loop. Processes start when they are needed, and then take one function after the other.
    """

    def __init__(self, *, processes: int, cpu_seconds: float, memory_bytes: int) -> None:
        """Start nothing yet.

        Args:
            processes: Maximum processes; of one caller half as many at a time.
            cpu_seconds: Maximum CPU time of a function.
            memory_bytes: Maximum memory of a process.
        """
        self._cpu_seconds = cpu_seconds
        self._memory_bytes = memory_bytes
        self._turns = Turns(processes)
        self._idle: list[Process] = []
        self._all: set[Process] = set()

    async def run(self, work: Callable[[], Result], *, caller: str) -> Result:
        """Run a function in another process, once one is free.

        Args:
            work: Function that pickle can send, as can its result.
            caller: Name of who asks for it; callers share the processes.

        Raises:
            DocumentCostError: The function takes too much time or memory.
            DocumentError: The function raises it.
            RefusedError: The function failed.
        """
        async with self._turns.of(caller):
            answer = await self._asked(pickle.dumps(work))
        if answer.refusal:
            raise (DocumentCostError if answer.is_costly else DocumentError)(answer.refusal)
        if answer.failure:
            kind, where = answer.failure
            _LOGGER.error("a document could not be read or written", extra={"type": kind, "where": where})
            raise RefusedError(Fault(status=HTTPStatus.INTERNAL_SERVER_ERROR, message="the gateway failed"))
        return cast("Result", answer.result)

    async def close(self) -> None:
        """End all processes."""
        for process in list(self._all):
            await self._end(process)

    async def _asked(self, request: bytes) -> Answer:
        process = self._idle.pop() if self._idle else await self._started()
        stays = False
        try:
            answer = await _answer(process, request)
            stays = not answer.is_last
        except (asyncio.IncompleteReadError, ConnectionError):
            raise DocumentCostError(self._reason(await process.wait())) from None
        finally:
            if stays:
                self._idle.append(process)
            else:
                await self._end(process)
        return answer

    async def _started(self) -> Process:
        limits = str(self._cpu_seconds), str(self._memory_bytes)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _WORKER, *limits), stdin=PIPE, stdout=PIPE, stderr=DEVNULL
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


async def _answer(process: Process, request: bytes) -> Answer:
    source, target = process.stdout, process.stdin
    if source is None or target is None:
        raise ConnectionError
    target.write(len(request).to_bytes(LENGTH_BYTES) + request)
    await target.drain()
    length = int.from_bytes(await source.readexactly(LENGTH_BYTES))
    return cast("Answer", pickle.loads(await source.readexactly(length)))  # noqa: S301 - of the worker
