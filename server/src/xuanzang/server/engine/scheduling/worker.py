"""Threads that decode."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Iterable, Sequence

from xuanzang.server.engine.hardware import flush_denormals, return_free_memory
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.model_runner import ModelRunner
from xuanzang.server.engine.scheduling.request import DoneSentence, QueuedSentence
from xuanzang.server.engine.scheduling.scheduler import Scheduler

_LOGGER = logging.getLogger(__name__)

# An idle worker keeps its memory for so long, because fresh memory is slow at first.
_IDLE_SECONDS = 10.0


class Worker:
    """One thread, which lets sentences join its batches at any step and answers each when it is done."""

    def __init__(self, number: int, *, models: Iterable[LoadedModel], scheduler: Scheduler) -> None:
        """Start the thread.

        Args:
            number: Number of the worker, from 0.
            models: Models with open graphs.
            scheduler: Source of the sentences.
        """
        self._number = number
        self._scheduler = scheduler
        self._runners = {model: ModelRunner(model) for model in models}
        self._busy_since = 0.0
        self._thread = threading.Thread(target=self._run, name=f"worker-{number}", daemon=True)
        self._thread.start()

    @property
    def has_stopped(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()

    def join(self, timeout: float) -> bool:
        """Wait for the thread's end, after the scheduler was stopped.

        Args:
            timeout: Maximum wait, seconds.

        Returns:
            Whether it has ended.
        """
        self._thread.join(timeout)
        return self.has_stopped

    def _run(self) -> None:
        flush_denormals()
        # A worker that has freed its memory waits for sentences without limit.
        idle_seconds = None
        while (newcomers := self._scheduler.take(self._number, idle_seconds=idle_seconds)) is not None:
            if newcomers or any(self._runners.values()):
                self._serve(newcomers)
                idle_seconds = _IDLE_SECONDS
            else:
                self._release()
                idle_seconds = None

    def _release(self) -> None:
        """Free the memory of an idle worker."""
        try:
            for runner in self._runners.values():
                runner.release()
        except Exception:  # the thread must live on
            _LOGGER.exception("memory could not be freed")
        # Python looks for cycles, such as failed calls and their tracebacks, only after so many new objects.
        gc.collect()
        return_free_memory()

    def _serve(self, newcomers: Sequence[QueuedSentence]) -> None:
        """Let sentences join, and take one step of each model."""
        if not any(self._runners.values()):
            self._busy_since = time.perf_counter()
        joining: dict[LoadedModel, list[QueuedSentence]] = {}
        for queued in newcomers:
            joining.setdefault(queued.request.model, []).append(queued)
        done = [
            sentence
            for model, runner in self._runners.items()
            if runner or model in joining
            for sentence in self._advance(runner, joining.get(model, ()))
        ]
        self._scheduler.report(self._number, running=sum(map(len, self._runners.values())))
        if done:
            now = time.perf_counter()
            self._scheduler.record(done, seconds=now - self._busy_since)
            self._busy_since = now

    def _advance(self, runner: ModelRunner, newcomers: Sequence[QueuedSentence]) -> list[DoneSentence]:
        """Take one step of a model; return the sentences that are done."""
        try:
            if newcomers:
                runner.admit(newcomers)
            return runner.step()
        except Exception as error:  # noqa: BLE001 - the thread must live on, and the waiting callers get the error
            runner.fail(error)
            return []
