"""Trial loading of bundles in another process, which they may end or keep busy without harm.

A graph is a program for a library in C++. Digests say that it is the one that was listed, not that it is harmless: to
divide the smallest integer by -1 ends the process, and a loop may have no end. So each bundle that is not known yet is
first loaded in another process, with limits of time and memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import sentencepiece

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.manifest import manifest_digest
from xuanzang.server.engine.hardware import processor
from xuanzang.server.engine.runtime.sessions import resolve_provider
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.whole_files import is_private, remove_abandoned, write_whole

_LOGGER = logging.getLogger(__name__)

# Lines of 65 bytes; the oldest go first.
_MAX_ENTRIES = 1000
_MAX_BYTES = 1 << 20
_MODULE = "xuanzang.server.engine.models.trial_program"
# A line of reasons has some kilobytes.
_MAX_LINE_BYTES = 1 << 20
# Beside busy workers it still gets a tenth of a core: at the lowest priority of all it might not get its imports done.
_NICENESS = 10
# The replay has a limit of its own, but cannot interrupt one run of a graph. The digests of 16 GB, the maximum, take
# half a minute.
MAX_SECONDS_PER_BUNDLE = 300.0
# Imports take half a second on an idle machine, and many times as long of what a busy one leaves.
_START_SECONDS = 300.0


class TriedBundles:
    """Digests of bundles together with what computed their translations.

    The digest of a manifest stands for the whole bundle: it lists the digests of all files, and the server compares
    these at each start. With another processor, library or setting the same bundle is a new one. The list is as
    trustworthy as the server's own files: one that others than its user may write is not read.
    """

    def __init__(self, file: Path, *, configuration: str) -> None:
        """Read nothing yet; the file need not exist, and the configuration decides how graphs are opened."""
        self._file = file
        versions = onnxruntime.__version__, sentencepiece.__version__, np.__version__, version("xuanzang-server")
        self._context = " ".join([*versions, onnxruntime.get_build_info(), processor(), configuration])

    def entry(self, directory: Path) -> str:
        """Return what the list holds for a bundle; empty if its manifest cannot be read."""
        try:
            return self.entry_of(manifest_digest(directory))
        except BundleError:
            return ""

    def entry_of(self, manifest_sha256: str) -> str:
        """Return what the list holds for a bundle by the lower-case hex SHA-256 of its manifest."""
        return hashlib.sha256(f"{self._context}\0{manifest_sha256}".encode()).hexdigest()

    def add(self, entries: Sequence[str]) -> None:
        """Add bundles; if the file cannot be written, they are tried again at the next start."""
        if not entries:
            return
        kept = list(dict.fromkeys([*self.entries(), *entries]))[-_MAX_ENTRIES:]
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            remove_abandoned(self._file.parent, self._file.name)
            write_whole(self._file, "\n".join([*kept, ""]).encode(), mode=0o600)
        except OSError as error:
            _LOGGER.info("tried bundles not remembered", extra={"file": str(self._file), "reason": error.strerror})

    def entries(self) -> list[str]:
        """Return all entries, the oldest first; none of a list that others may write."""
        try:
            with self._file.open("rb") as file:
                if is_private(os.fstat(file.fileno())):
                    return file.read(_MAX_BYTES).decode("ascii", "replace").split()
        except OSError:
            return []
        _LOGGER.warning("tried bundles not read: others may write the list", extra={"file": str(self._file)})
        return []


async def _answers(
    request: Mapping[str, Any], *, gives_way: bool, max_seconds: float
) -> AsyncGenerator[list[str], None]:
    """Start a process, which ends with the generator, and yield its answers to a request; none if it does not start.

    Raises:
        OSError: No process can be started.
        TimeoutError: The process is still busy with its next answer.
        EOFError: The process has ended; the message says how.
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
        if not await _is_ready(process, json.dumps(request).encode() + b"\n"):
            return
        while True:
            async with asyncio.timeout(max_seconds):
                line = await process.stdout.readline() if process.stdout else b""
                if not line.endswith(b"\n"):
                    status = await process.wait()
                    raise EOFError(signal.Signals(-status).name if status < 0 else f"exit status {status}")
            yield json.loads(line)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _is_ready(process: Process, request: bytes) -> bool:
    # A process that has ended already takes no request and gives no answer.
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(_START_SECONDS):
            if process.stdin and process.stdout:
                process.stdin.write(request)
                await process.stdin.drain()
                return bool(await process.stdout.readline())
    return False


class TrialLoader:
    """Loads bundles in another process, one after another."""

    def __init__(
        self,
        settings: EngineSettings,
        *,
        known: TriedBundles | None = None,
        max_seconds_per_bundle: float = MAX_SECONDS_PER_BUNDLE,
    ) -> None:
        self._settings = settings.model_dump(mode="json", include=set(EngineSettings.model_fields))
        self._known = known
        self._max_seconds = max_seconds_per_bundle

    def has_replayed(self, manifest_sha256: str) -> bool:
        """Return whether another process has replayed all samples of a bundle on a processor like this one.

        What is known does not tell GPUs apart.
        """
        if self._known is None or resolve_provider(self._settings["provider"]) != "cpu":
            return False
        return self._known.entry_of(manifest_sha256) in self._known.entries()

    async def refusals(self, directories: Sequence[Path], *, gives_way: bool = True) -> dict[Path, BundleError]:
        """Return the reasons for which bundles cannot be loaded, by folder; others can, or could be before.

        `gives_way`: whether the other process leaves the cores to this one, which may be translating.
        """
        # Of the manifests as they are before the trial.
        entries = {directory: self._known.entry(directory) if self._known else "" for directory in directories}
        known = set(self._known.entries()) if self._known else set()
        left = [directory for directory in directories if entries[directory] not in known]
        outcomes: dict[Path, list[str]] = {}
        while left:
            # A process ends with the bundle that ends it; another goes on after that.
            tried = await self._load(left, gives_way=gives_way)
            if not tried:
                _LOGGER.warning("no trial of bundles", extra={"reason": "the process does not start"})
                break
            outcomes |= zip(left, tried, strict=False)
            left = left[len(tried) :]
        if self._known:
            self._known.add([entries[directory] for directory, reasons in outcomes.items() if not reasons])
        return {directory: BundleError(directory, reasons) for directory, reasons in outcomes.items() if reasons}

    async def _load(self, directories: Sequence[Path], *, gives_way: bool) -> list[list[str]]:
        """Return the reasons of the first bundles, up to the one that ended the process; nothing if none started."""
        answers: list[list[str]] = []
        request = {"settings": self._settings, "directories": list(map(str, directories))}
        try:
            async with aclosing(_answers(request, gives_way=gives_way, max_seconds=self._max_seconds)) as found:
                async for reasons in found:
                    answers.append(reasons)
                    if len(answers) == len(directories):
                        break
        except TimeoutError:
            answers.append([f"loading it takes more than {self._max_seconds:g} seconds"])
        except EOFError as error:
            answers.append([f"loading it ends the process that loads it: {error}"])
        except OSError as error:
            _LOGGER.warning("no process for the trial of bundles", extra={"reason": str(error)})
        return answers
