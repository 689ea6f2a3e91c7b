"""Trial loading of bundles in another process, which they may end or keep busy for ever without harm.

A graph or a tokeniser is a program for a library in C++. Digests say that it is the one that was exported, not that it
is harmless: a faulty one can end the process that opens it, or never return. So each bundle that is not known yet is
first loaded in a process of its own kind, with limits of time and memory.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.models.probed_bundles import ProbedBundles
from xuanzang.server.engine.settings import EngineSettings

_LOGGER = logging.getLogger(__name__)

_MODULE = "xuanzang.server.engine.models.probe"
# The replay has a limit of its own; what it cannot interrupt is one run of a graph. The digests of 16 GB, the maximum,
# take half a minute.
MAX_SECONDS_PER_BUNDLE = 300.0
_START_SECONDS = 60.0
_MAX_LINE_BYTES = 1 << 20


class Prober:
    """Loads bundles in another process, one after another."""

    def __init__(
        self,
        settings: EngineSettings,
        *,
        known: ProbedBundles | None = None,
        max_seconds_per_bundle: float = MAX_SECONDS_PER_BUNDLE,
    ) -> None:
        """Make a prober; no process starts before `refusals`.

        Args:
            settings: Settings with which the engine opens graphs.
            known: Bundles that were loaded before, which are not probed again; None to probe all.
            max_seconds_per_bundle: Time after which a bundle is refused.
        """
        self._settings = settings
        self._known = known
        self._max_seconds = max_seconds_per_bundle

    async def refusals(self, directories: Sequence[Path]) -> dict[Path, BundleError]:
        """Find the bundles that cannot be loaded.

        Args:
            directories: Folders of bundles.

        Returns:
            Reasons by folder; bundles that can be loaded, or were before, are not among them.
        """
        # Of the manifest as it is before the bundle is probed.
        entries = {directory: self._known.entry(directory) if self._known else "" for directory in directories}
        known = set(self._known.entries()) if self._known else set()
        left = [directory for directory in directories if entries[directory] not in known]
        outcomes: dict[Path, Sequence[str]] = {}
        while left:
            # A process ends with the bundle that ends it; the next one goes on after it.
            answered = await self._load(left)
            if not answered:
                _LOGGER.warning("bundles are not probed", extra={"reason": "the probing process does not start"})
                break
            outcomes |= zip(left, answered, strict=False)
            left = left[len(answered) :]
        if self._known:
            self._known.add([entries[directory] for directory, reasons in outcomes.items() if not reasons])
        return {directory: BundleError(directory, reasons) for directory, reasons in outcomes.items() if reasons}

    async def _load(self, directories: Sequence[Path]) -> list[Sequence[str]]:
        """Return the reasons of the first bundles, up to the one that ended the process; nothing if none started."""
        answers: list[Sequence[str]] = []
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
            settings = self._settings.model_dump(mode="json", include=set(EngineSettings.model_fields))
            await _send(process, {"settings": settings, "directories": [str(path) for path in directories]})
            if await _answer(process, _START_SECONDS) != "ready":
                return []
            while len(answers) < len(directories):
                answer = await _answer(process, self._max_seconds)
                answers.append([await _ending(process, self._max_seconds)] if answer is None else answer)
                if answer is None:
                    break
        finally:
            await _end(process)
        return answers


async def _send(process: Process, request: dict[str, Any]) -> None:
    assert process.stdin
    with suppress(BrokenPipeError, ConnectionResetError):
        # A process that has ended already gives no answer either.
        process.stdin.write(json.dumps(request).encode() + b"\n")
        await process.stdin.drain()


async def _answer(process: Process, seconds: float) -> Any:
    """Return the next line; None if the process ends or takes too long."""
    assert process.stdout
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            line = await process.stdout.readline()
            return json.loads(line) if line.endswith(b"\n") else None
    return None


async def _ending(process: Process, seconds: float) -> str:
    """Return why a process gives no answer."""
    assert process.stdout
    if not process.stdout.at_eof():
        return f"loading it takes more than {seconds:g} seconds"
    status = await process.wait()
    how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    return f"loading it ends the process that loads it: {how}"


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()
