"""The process that loads bundles for trial: started, asked and ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

_MODULE = "xuanzang.server.engine.models.trial.program"
# A line of reasons has some kilobytes.
_MAX_LINE_BYTES = 1 << 20
# Beside busy workers it still gets a tenth of a core: at the lowest priority of all it might not get its imports done.
_NICENESS = 10


class TrialProcess:
    """A running process and its pipes."""

    def __init__(self, process: Process, stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader) -> None:
        self._process = process
        self._stdin = stdin
        self._stdout = stdout

    async def ask(self, request: Mapping[str, Any], *, seconds: float) -> bool:
        """Send the request.

        Args:
            request: Object for JSON.
            seconds: Maximum wait.

        Returns:
            Whether the process is ready to answer.
        """
        # A process that has ended already takes no request and gives no answer.
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(seconds):
                self._stdin.write(json.dumps(request).encode() + b"\n")
                await self._stdin.drain()
                return bool(await self._stdout.readline())
        return False

    async def answer(self, *, seconds: float) -> list[str]:
        """Wait for the next answer.

        Args:
            seconds: Maximum wait.

        Returns:
            Reasons for which the next bundle is refused; empty if it can be loaded.

        Raises:
            TimeoutError: The process is still busy.
            EOFError: The process has ended; the message says how.
        """
        async with asyncio.timeout(seconds):
            line = await self._stdout.readline()
            if not line.endswith(b"\n"):
                status = await self._process.wait()
                raise EOFError(signal.Signals(-status).name if status < 0 else f"exit status {status}")
        reasons: list[str] = json.loads(line)
        return reasons


@asynccontextmanager
async def start_trial_process(*, gives_way: bool) -> AsyncIterator[TrialProcess]:
    """Start a process; it is ended with the context.

    Args:
        gives_way: Whether it leaves the cores to this one, which may be translating.

    Yields:
        The process, which waits for a request.

    Raises:
        OSError: No process can be started.
    """
    process = await asyncio.create_subprocess_exec(
        # The folder that the server was started in is not searched for modules.
        *(sys.executable, "-P", "-m", _MODULE),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        limit=_MAX_LINE_BYTES,
        # Ctrl-C is for the server, which then ends this process.
        start_new_session=True,
    )
    try:
        if gives_way:
            # At once: most of its time goes into its imports.
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + _NICENESS)
        if process.stdin is None or process.stdout is None:
            raise OSError("a process was started without its pipes")
        yield TrialProcess(process, process.stdin, process.stdout)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
