"""A thread that decodes."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.denormals import flush_denormals
from xuanzang.server.engine.lane import Lane, NewDecoder
from xuanzang.server.engine.model import LoadedModel
from xuanzang.server.engine.replay import replay
from xuanzang.server.engine.request import QueuedSentence
from xuanzang.server.engine.scheduler import Scheduler
from xuanzang.server.metrics import Metrics


class Worker:
    """One thread with graphs of its own: lets sentences join at any step and answers each when it is done."""

    def __init__(
        self,
        number: int,
        *,
        models: Sequence[LoadedModel],
        open_graphs: Callable[[Bundle], NewDecoder],
        scheduler: Scheduler,
        metrics: Metrics,
    ) -> None:
        """Start the thread.

        Args:
            number: Of the worker, from 0.
            models: To open.
            open_graphs: Opens the graphs of a bundle; called in the thread.
            scheduler: Gives the sentences.
            metrics: That count them.
        """
        self.ready: concurrent.futures.Future[Mapping[LoadedModel, BundleError]] = concurrent.futures.Future()
        """Done when sentences are being taken: models that are refused, and why."""
        self._number = number
        self._models = models
        self._open_graphs = open_graphs
        self._scheduler = scheduler
        self._metrics = metrics
        self._lanes: dict[LoadedModel, Lane] = {}
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
        try:
            refused = self._open_models()
        except Exception as error:  # noqa: BLE001 - whoever waits for the worker must hear of it, whatever it is
            self.ready.set_exception(error)
            return
        self.ready.set_result(refused)
        while (newcomers := self._scheduler.take(self._number)) is not None:
            self._serve(newcomers)

    def _open_models(self) -> dict[LoadedModel, BundleError]:
        refused: dict[LoadedModel, BundleError] = {}
        for model in self._models:
            try:
                self._lanes[model] = self._open_model(model)
            except BundleError as error:
                refused[model] = error
        return refused

    def _open_model(self, model: LoadedModel) -> Lane:
        metrics = self._metrics.of(model.labels)
        started = time.monotonic()
        new_decoder = self._open_graphs(model.bundle)
        opened = time.monotonic()
        replay(model, new_decoder)
        metrics.model_load_duration_seconds.set(model.load_seconds + opened - started)
        metrics.warmup_duration_seconds.set(time.monotonic() - opened)
        return Lane(model, new_decoder, metrics=self._metrics)

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
