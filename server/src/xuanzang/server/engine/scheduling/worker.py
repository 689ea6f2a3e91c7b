"""Threads that decode."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

from xuanzang.server.engine.hardware import flush_denormals
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.model_runner import ModelRunner
from xuanzang.server.engine.scheduling.request import QueuedSentence
from xuanzang.server.engine.scheduling.scheduler import Scheduler


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

    def join(self, timeout: float) -> bool:
        """Wait for the thread's end, after the scheduler was stopped.

        Args:
            timeout: Maximum wait, seconds.

        Returns:
            Whether it has ended.
        """
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        flush_denormals()
        while (newcomers := self._scheduler.take(self._number)) is not None:
            self._serve(newcomers)

    def _serve(self, newcomers: Sequence[QueuedSentence]) -> None:
        """Let sentences join, and take one step of each model."""
        if not any(self._runners.values()):
            self._busy_since = time.perf_counter()
        joining: dict[LoadedModel, list[QueuedSentence]] = {}
        for queued in newcomers:
            joining.setdefault(queued.request.model, []).append(queued)
        cost = sum(
            self._advance(runner, joining.get(model, ()))
            for model, runner in self._runners.items()
            if runner or model in joining
        )
        self._scheduler.report(self._number, running=sum(map(len, self._runners.values())))
        if cost:
            now = time.perf_counter()
            self._scheduler.record(cost, now - self._busy_since)
            self._busy_since = now

    def _advance(self, runner: ModelRunner, newcomers: Sequence[QueuedSentence]) -> int:
        """Return the predicted cost of the sentences that are done."""
        try:
            if newcomers:
                runner.admit(newcomers)
            return runner.step()
        except Exception as error:  # noqa: BLE001 - the thread must live on, and the waiting callers get the error
            runner.fail(error)
            return 0
