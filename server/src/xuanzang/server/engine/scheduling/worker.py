"""Threads that decode."""

from __future__ import annotations

import gc
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from operator import methodcaller
from typing import NamedTuple

from xuanzang.server.engine.hardware import flush_denormals, give_way, return_free_memory
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.model_runner import ModelRunner
from xuanzang.server.engine.scheduling.places import NOTHING, TIERS, Held
from xuanzang.server.engine.scheduling.request import DoneSentence, QueuedSentence
from xuanzang.server.engine.scheduling.reservations import BatchKey, BatchUse
from xuanzang.server.engine.scheduling.scheduler import Scheduler
from xuanzang.server.engine.types import CallerId

_LOGGER = logging.getLogger(__name__)

# An idle worker keeps its memory for so long, because fresh memory is slow at first.
_IDLE_SECONDS = 10.0
# One that never rests gives it back from time to time: it would follow the largest batch of all times.
_TRIM_SECONDS = 60.0
# Steps of a model between two looks at the clock, if nothing happens meanwhile; sentences are hardly ever longer.
_STEPS = 64


class _RunnerKey(NamedTuple):
    """Whose sentences a model runner decodes."""

    model: LoadedModel
    tier: int


class Worker:
    """One thread, which lets sentences join its batches at any step and answers each when it is done."""

    def __init__(self, number: int, *, scheduler: Scheduler, on_fault: Callable[[], None]) -> None:
        """Start the thread; `on_fault` is called in it if an error ends it."""
        self._number, self._on_fault = number, on_fault
        self.has_failed = False
        """True if an error has ended the thread."""
        self._scheduler = scheduler
        self._turns = scheduler.turns[number]
        self._runners: dict[_RunnerKey, ModelRunner] = {}
        self._dropping: deque[tuple[LoadedModel, Future[None]]] = deque()
        self._busy_since = 0.0
        self._untrimmed_since = math.inf
        self._thread = threading.Thread(target=self._run, name=f"worker-{number}", daemon=True)
        self._thread.start()

    @property
    def has_stopped(self) -> bool:
        """True if the thread has ended."""
        return not self._thread.is_alive()

    def drop(self, model: LoadedModel) -> Future[None]:
        """Let go what the worker holds of a model, from any thread."""
        dropped: Future[None] = Future()
        # Whoever waits may give up waiting, but not the drop.
        dropped.set_running_or_notify_cancel()
        self._dropping.append((model, dropped))
        self._scheduler.wake(self._number)
        return dropped

    def join(self, timeout: float) -> bool:
        """Wait at most some seconds for the thread's end, after the scheduler was stopped."""
        self._thread.join(timeout)
        return self.has_stopped

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            _LOGGER.exception("a worker ended", extra={"worker": self._number})
            for runner in self._runners.values():
                runner.fail(error)
            while self._dropping:
                self._dropping.popleft()[1].set_result(None)
            self.has_failed = True
            self._on_fault()

    def _work(self) -> None:
        flush_denormals()
        # The event loop, which refuses what is too much, must not wait for a core.
        give_way()
        # A worker that has freed its memory waits for sentences without limit.
        idle_seconds = None
        while (newcomers := self._scheduler.take(self._number, idle_seconds=idle_seconds)) is not None:
            tidied = (self._drop_models() if self._dropping else False) | self._trim()
            running = [key for key, runner in self._runners.items() if runner]
            if newcomers or running:
                self._serve(newcomers, running)
                idle_seconds = _IDLE_SECONDS
            elif not tidied:
                self._release()
                idle_seconds = None
            self._report()

    def _drop_models(self) -> bool:
        """Let go the models that no call uses any more, at least one."""
        dropped = []
        while self._dropping:
            model, future = self._dropping.popleft()
            dropped.append(future)
            for key in [key for key in self._runners if key.model is model]:
                self._runners.pop(key).close()
            # Whoever waits for the futures closes the graphs, which nobody may use then.
            del model
        return_free_memory()
        for future in dropped:
            future.set_result(None)
        return True

    def _trim(self) -> bool:
        """Give back memory if others wait for it, or if the worker has kept it for long; return whether it did."""
        is_old = time.perf_counter() - self._untrimmed_since >= _TRIM_SECONDS
        if not self._scheduler.must_trim(self._number) and not is_old:
            return False
        for runner in self._runners.values():
            try:
                runner.trim(shrinks=is_old)
            except Exception as error:  # noqa: BLE001 - as in _advance
                runner.fail(error)
        if is_old:
            # Python by itself looks for cycles of old objects only when there are a million of them.
            gc.collect()
            self._untrimmed_since = time.perf_counter()
        return_free_memory()
        return True

    def _report(self) -> None:
        uses: dict[BatchKey, BatchUse] = {}
        held: list[dict[CallerId, Held]] = [{} for _ in TIERS]
        for key, runner in self._runners.items():
            uses |= runner.uses
            callers = held[key.tier]
            for caller, each in runner.held.items():
                callers[caller] = callers.get(caller, NOTHING).plus(*each)
        self._scheduler.report(self._number, held=held, uses=uses)

    def _release(self) -> None:
        try:
            for runner in self._runners.values():
                runner.release()
        except Exception:  # the thread must live on
            _LOGGER.exception("memory could not be freed")
        # Python looks for cycles, such as failed calls and their tracebacks, only after so many new objects.
        gc.collect()
        return_free_memory()
        self._untrimmed_since = math.inf

    def _serve(self, newcomers: Sequence[QueuedSentence], running: list[_RunnerKey]) -> None:
        """Let sentences join, and take a step of each model whose tier has its turn, or several of the only one."""
        if not running:
            self._busy_since = time.perf_counter()
            self._untrimmed_since = min(self._untrimmed_since, self._busy_since)
        joining: dict[_RunnerKey, list[QueuedSentence]] = {}
        for queued in newcomers:
            joining.setdefault(_RunnerKey(queued.request.model, queued.tier), []).append(queued)
        for key, sentences in joining.items():
            began = time.perf_counter()
            self._work_on(key, methodcaller("admit", sentences), sentences)
            tokens = sum([queued.source_tokens for queued in sentences])
            self._scheduler.record_joining(self._number, tokens, time.perf_counter() - began)
        if joining:
            running = [key for key, runner in self._runners.items() if runner]
        if not running:
            return
        turn, steps, seconds = running, 1, math.inf
        if len(running) > 1:
            tier = self._turns.first({key.tier for key in running})
            turn = [key for key in running if key.tier == tier]
        if len(turn) == 1:
            until_joining = self._scheduler.joins_at[self._number] - time.monotonic()
            steps, seconds = _STEPS, min(self._turns.seconds(turn[0].tier), until_joining)
        done: list[DoneSentence] = []
        for key in turn:
            has_newcomers = self._scheduler.has_waiting
            done += self._work_on(key, methodcaller("advance", steps, seconds, has_newcomers=has_newcomers)) or ()
        if done:
            now = time.perf_counter()
            self._scheduler.record(self._number, done, seconds=now - self._busy_since)
            self._busy_since = now

    def _work_on(
        self,
        key: _RunnerKey,
        work: Callable[[ModelRunner], list[DoneSentence] | None],
        newcomers: Sequence[QueuedSentence] = (),
    ) -> list[DoneSentence] | None:
        """Do a part of the work on a model's sentences in the time of their tier; None if it fails."""
        started = time.perf_counter()
        try:
            # Made with the first sentence, because models come and go.
            if key not in self._runners:
                interrupt = self._scheduler.interrupts[self._number]
                self._runners[key] = ModelRunner(key.model, tier=key.tier, worker=self._number, interrupt=interrupt)
            return work(self._runners[key])
        except Exception as error:  # noqa: BLE001 - the thread must live on, and the waiting callers get the error
            if key in self._runners:
                self._runners[key].fail(error)
            for queued in newcomers:
                queued.request.fail(error)
            return None
        finally:
            self._turns.charge(key.tier, time.perf_counter() - started)
