"""Trial loading of bundles in another process, which they may end or keep busy without harm.

A graph is a program for a library in C++. Digests prove that it is the listed one, not that it is harmless: to
divide the smallest integer by -1 ends the process, and a loop may have no end. So each bundle that is not known yet is
first loaded in another process, with limits of time and memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import resource
import signal
import stat
import sys
import threading
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnxruntime
from prometheus_client import CollectorRegistry

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.manifest import manifest_digest
from xuanzang.server.engine.hardware import processor
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.models.loading import load_model
from xuanzang.server.engine.runtime.sessions import resolve_provider
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.metrics import Metrics
from xuanzang.server.whole_files import is_private, remove_abandoned, write_whole

_LOGGER = logging.getLogger(__name__)

# Lines of 65 bytes; the oldest go first.
_MAX_ENTRIES = 1000
_MAX_BYTES = 1 << 20
_MODULE = "xuanzang.server.engine.models.trial_loader"
# A line of reasons has some kilobytes.
_MAX_LINE_BYTES = 1 << 20
# With busy workers it still gets a tenth of a core; at the lowest priority it might not finish its imports.
_NICENESS = 10
# The replay has a time limit, but cannot interrupt one run of a graph. The digests of 16 GB, the maximum, take
# half a minute.
MAX_SECONDS_PER_BUNDLE = 300.0
# Imports take half a second on an idle machine, and many times as long of what a busy one leaves.
_START_SECONDS = 300.0
# Python, onnxruntime and a small model take 200 MB; a graph may ask for any amount.
_BASE_BYTES = 1 << 30
# Weights that are packed for matrix products exist twice for a moment, and once as read.
_WEIGHT_COPIES = 4


class TriedBundles:
    """Digests of bundles together with what computed their translations.

    The digest of a manifest stands for the whole bundle: it lists the digests of all files, and the server compares
    these at each start. With another processor, library or setting the same bundle is a new one. The list is as
    trustworthy as the server's own files: one that other users may write is not read.
    """

    def __init__(self, file: Path, *, configuration: str) -> None:
        """Read nothing yet; the file need not exist, and the configuration decides how graphs are opened."""
        self._file = file
        versions = onnxruntime.__version__, version("sentencepiece"), np.__version__, version("xuanzang-server")
        self._context = " ".join([*versions, onnxruntime.get_build_info(), processor(), configuration])

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
        self._passed: set[str] = set()
        """SHA-256 of the manifests of bundles that this process has found sound."""
        self._adding = asyncio.Lock()
        self._max_seconds = max_seconds_per_bundle

    def has_replayed(self, manifest_sha256: str) -> bool:
        """Return whether another process has replayed all samples of a bundle on a processor like this one.

        The known facts do not distinguish GPUs.
        """
        if self._known is None or resolve_provider(self._settings["provider"]) != "cpu":
            return False
        return self._known.entry_of(manifest_sha256) in self._known.entries()

    async def require(self, model: LoadedModel) -> None:
        """Raise BundleError unless the bundle of a model that rests has passed its trial, now or before."""
        directory, digest = model.bundle.directory, model.bundle.manifest_sha256
        if digest in self._passed:
            return
        # A caller waits for it.
        refused = await self.refusals([directory], gives_way=False)
        if directory in refused:
            raise refused[directory]
        if digest not in self._passed:
            raise BundleError(directory, ["another bundle has taken its place, which is not served yet"])

    async def refusals(self, directories: Sequence[Path], *, gives_way: bool = True) -> dict[Path, BundleError]:
        """Return the reasons for refusing bundles, by folder; the others can be loaded, or were before.

        `gives_way`: whether the other process leaves the cores to this one, which may be translating.
        """
        # Before the trial.
        digests = {directory: _digest(directory) for directory in directories}
        self._passed |= self._remembered(digests.values())
        left = [directory for directory in directories if digests[directory] not in self._passed]
        outcomes: dict[Path, list[str]] = {}
        if left:
            _LOGGER.info("trial of bundles that are new to this machine", extra={"bundles": len(left)})
        while left:
            # A process ends with the bundle that ends it; another goes on after that.
            tried = await self._load(left, gives_way=gives_way)
            if not tried:
                # An untried bundle may end this process as it would have ended the other.
                tried = [["it was not tried: the process that loads it first did not start"] for _ in left]
            outcomes |= zip(left, tried, strict=False)
            left = left[len(tried) :]
        passed = [digests[directory] for directory, reasons in outcomes.items() if digests[directory] and not reasons]
        self._passed.update(passed)
        if self._known and passed:
            async with self._adding:
                await asyncio.to_thread(self._known.add, [*map(self._known.entry_of, passed)])
        return {directory: BundleError(directory, reasons) for directory, reasons in outcomes.items() if reasons}

    def _remembered(self, digests: Iterable[str]) -> set[str]:
        """Return those of some digests of manifests whose bundles have passed a trial before."""
        entries = set(self._known.entries()) if self._known else set()
        return {digest for digest in digests if self._known and digest and self._known.entry_of(digest) in entries}

    async def _load(self, directories: Sequence[Path], *, gives_way: bool) -> list[list[str]]:
        """Return the reasons of the first bundles, up to the one that ended the process; nothing if none started."""
        try:
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
        except OSError as error:
            _LOGGER.warning("no process for the trial of bundles", extra={"reason": str(error)})
            return []
        try:
            if gives_way:
                # At once: most of its time goes into its imports.
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + _NICENESS)
            request = {"settings": self._settings, "directories": list(map(str, directories))}
            return await self._answers(process, json.dumps(request).encode() + b"\n", len(directories))
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _answers(self, process: Process, request: bytes, count: int) -> list[list[str]]:
        """Return up to `count` answers of a process, the last possibly its end; none if it is never ready."""
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a process without pipes was started")
        process.stdin.write(request)
        answers: list[list[str]] = []
        try:
            async with asyncio.timeout(_START_SECONDS):
                is_ready = bool(await process.stdout.readline())
        except TimeoutError:
            is_ready = False
        while is_ready and len(answers) < count:
            try:
                async with asyncio.timeout(self._max_seconds):
                    line = await process.stdout.readline()
                    status = None if line.endswith(b"\n") else await process.wait()
            except TimeoutError:
                return [*answers, [f"loading it takes more than {self._max_seconds:g} seconds"]]
            if status is not None:
                how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
                return [*answers, [f"loading it ends the process that loads it: {how}"]]
            answers.append(json.loads(line))
            if count > 1:
                _LOGGER.info("bundle tried", extra={"number": len(answers), "of": count})
        return answers


def _digest(directory: Path) -> str:
    """Return the SHA-256 of a bundle's manifest; empty if it cannot be read."""
    try:
        return manifest_digest(directory)
    except BundleError:
        return ""


def main() -> None:
    """Load bundles one after another and report on each; this is the other process, and it may end at any of them.

    Standard input is one line of JSON with the settings and the folders; standard output gets one line for each folder.
    """
    request = json.loads(sys.stdin.readline())
    settings = EngineSettings.model_validate(request["settings"])
    # Output of libraries must not mix with the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _be_killed_first()
    # A bundle that crashes the trial must not fill the disk with its memory.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.Thread(target=_end_with_server, daemon=True).start()
    print(json.dumps("ready"), file=answers, flush=True)
    for name in request["directories"]:
        directory = Path(name)
        if settings.provider != "cuda":
            # Drivers of GPUs reserve far more than they use.
            _limit_memory(directory)
        outcome = load_model(directory, lambda each: LoadedModel(each, Metrics(CollectorRegistry()), settings))
        reasons = outcome.reasons if isinstance(outcome, BundleError) else ()
        print(json.dumps(reasons), file=answers, flush=True)


def _be_killed_first() -> None:
    """If memory runs out, let the system end this process and not the server."""
    # Only Linux has it, and some sandboxes write-protect it.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _end_with_server() -> None:
    """Wait until the server closes the input, if only by its end, and end then: a loop may have no other."""
    sys.stdin.read()
    os._exit(1)


def _limit_memory(directory: Path) -> None:
    """Limit this process's memory to the needs of a bundle's files."""
    size = _BASE_BYTES
    with suppress(OSError):
        states = [path.stat() for path in directory.iterdir()]
        size += _WEIGHT_COPIES * sum(state.st_size for state in states if stat.S_ISREG(state.st_mode))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = size if hard == resource.RLIM_INFINITY else min(size, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


if __name__ == "__main__":
    main()
