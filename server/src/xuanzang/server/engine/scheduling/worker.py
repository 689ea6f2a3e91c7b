"""A thread that decodes."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from xuanzang.server.engine.denormals import flush_denormals
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.model_runner import Lane, NewDecoder
from xuanzang.server.engine.scheduling.request import QueuedSentence
from xuanzang.server.engine.scheduling.scheduler import Scheduler
from xuanzang.server.metrics import Metrics


class Worker:
    """One thread: lets sentences join its batches at any step and answers each when it is done."""

    def __init__(
        self, number: int, *, decoders: Mapping[LoadedModel, NewDecoder], scheduler: Scheduler, metrics: Metrics
    ) -> None:
        """Start the thread.

        Args:
            number: Of the worker, from 0.
            decoders: What makes a decoder of each model.
            scheduler: Gives the sentences.
            metrics: That count them.
        """
        self._number = number
        self._scheduler = scheduler
        self._lanes = {model: Lane(model, new_decoder, metrics=metrics) for model, new_decoder in decoders.items()}
        self._busy_since = 0.0
        self._thread = threading.Thread(target=self._run, name=f"worker-{number}", daemon=True)
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the thread's end, after the scheduler was stopped.

        Args:
            timeout: Most seconds to wait.

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
        if not any(self._lanes.values()):
            self._busy_since = time.perf_counter()
        joining: dict[LoadedModel, list[QueuedSentence]] = {}
        for queued in newcomers:
            joining.setdefault(queued.request.model, []).append(queued)
        cost = sum(
            self._advance(lane, joining.get(model, ()))
            for model, lane in self._lanes.items()
            if lane or model in joining
        )
        self._scheduler.report(self._number, running=sum(map(len, self._lanes.values())))
        if cost:
            now = time.perf_counter()
            self._scheduler.record(cost, now - self._busy_since)
            self._busy_since = now

    def _advance(self, lane: Lane, newcomers: Sequence[QueuedSentence]) -> int:
        """Return the predicted cost of the sentences that are done."""
        try:
            if newcomers:
                lane.admit(newcomers)
            return lane.step()
        except Exception as error:  # noqa: BLE001 - the thread must live on, and those who wait must hear of it
            lane.fail(error)
            return 0
