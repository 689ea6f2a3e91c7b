"""The threads of an engine: those that tokenise, and the workers that decode, with the queue before them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from xuanzang.server.engine.hardware import default_workers, give_way
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.scheduler import Scheduler
from xuanzang.server.engine.scheduling.worker import Worker
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.metrics import TIERS, ServerMetrics

# Splitting and tokenising take some thousandths of the time of decoding.
_TOKENIZING_THREADS = 2
# A worker checks after each step, which takes milliseconds; far more is a fault, and no reason to hang.
_STOP_SECONDS = 5.0


class EngineThreads:
    """Tokenising threads, and workers once they are started. Belongs to one event loop."""

    def __init__(self, settings: EngineSettings, *, provider: str) -> None:
        """Make an empty queue; no thread starts before it has work.

        Args:
            settings: Number of workers, limits of queue and batches.
            provider: "cpu" or "cuda".
        """
        self._count = settings.workers or default_workers(provider, settings.intra_op_threads)
        self.scheduler = Scheduler(settings, workers=self._count)
        """Queue of the workers."""
        # Texts of a caller must take no core from the workers, who give way, nor from the event loop.
        self.tokenizing = ThreadPoolExecutor(_TOKENIZING_THREADS, thread_name_prefix="tokenizing", initializer=give_way)
        """Threads that split and tokenise texts."""
        self.workers: list[Worker] = []
        """Workers; none before `start`."""

    def start(self, metrics: ServerMetrics) -> None:
        """Start the workers."""
        self.workers = [Worker(number, scheduler=self.scheduler) for number in range(self._count)]
        metrics.workers.set(self._count)
        for tier, name in enumerate(TIERS):
            metrics.held_places[name].set_function(partial(self.scheduler.held_places, tier))
            metrics.waiting_places[name].set_function(partial(self.scheduler.waiting_places, tier))
        metrics.workers_stopped.set_function(lambda: sum(worker.has_stopped for worker in self.workers))

    async def drop(self, model: LoadedModel) -> None:
        """Let the workers drop a model that no call uses."""
        await asyncio.gather(*(asyncio.wrap_future(worker.drop(model)) for worker in self.workers))

    async def stop(self) -> bool:
        """Stop the workers after their step, and wait for their end."""
        self.scheduler.stop()
        # Requests that are being tokenised go on to find the scheduler stopped.
        self.tokenizing.shutdown(wait=False)
        return all(await asyncio.gather(*(asyncio.to_thread(worker.join, _STOP_SECONDS) for worker in self.workers)))
