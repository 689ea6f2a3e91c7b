"""Threads that decode."""

from __future__ import annotations

import gc
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import NamedTuple

from xuanzang.server.engine.hardware import flush_denormals, give_way, return_free_memory
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.decide import Decision
from xuanzang.server.engine.scheduling.model_runner import ModelRunner
from xuanzang.server.engine.scheduling.request import DoneSentence, QueuedSentence
from xuanzang.server.engine.scheduling.scheduler import Scheduler

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
        while (decision := self._scheduler.take(self._number, idle_seconds=idle_seconds)) is not None:
            tidied = (self._drop_models() if self._dropping else False) | self._trim()
            running = [key for key, runner in self._runners.items() if runner]
            if decision.joins or running:
                self._serve(decision, running)
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
            except Exception as error:  # noqa: BLE001 - as in _work_on
                runner.fail(error)
        if is_old:
            # Python by itself looks for cycles of old objects only when there are a million of them.
            gc.collect()
            self._untrimmed_since = time.perf_counter()
        return_free_memory()
        return True

    def _report(self) -> None:
        """Tell the scheduler which sentences have left, and what memory is held."""
        if self._scheduler.sentences(self._number) != sum(map(len, self._runners.values())):
            running = [queued for runner in self._runners.values() for queued in runner.sentences]
            self._scheduler.leave(self._number, running)
        for key, runner in self._runners.items():
            if (held := runner.changed_bytes()) is not None:
                self._scheduler.hold(self._number, key.model, key.tier, held)

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

    def _serve(self, decision: Decision, running: list[_RunnerKey]) -> None:
        """Let sentences join, and take the steps that were decided: one of each model, or several of the only one."""
        if not running:
            self._busy_since = time.perf_counter()
            self._untrimmed_since = min(self._untrimmed_since, self._busy_since)
        for tier, sentences in decision.joins.items():
            self._admit(tier, sentences)
        turn = [key for key, runner in self._runners.items() if runner and key.tier == decision.tier]
        if not turn:
            # Its sentences could not join.
            turn = [key for key, runner in self._runners.items() if runner]
        steps, seconds = (_STEPS, decision.max_seconds) if len(turn) == 1 else (1, math.inf)
        done: list[DoneSentence] = []
        for key in turn:
            has_newcomers = self._scheduler.has_waiting
            with self._work_on(key):
                done += self._runners[key].advance(steps, seconds, has_newcomers=has_newcomers)
        if done:
            now = time.perf_counter()
            self._scheduler.record(self._number, done, seconds=now - self._busy_since)
            self._busy_since = now

    def _admit(self, tier: int, sentences: Sequence[QueuedSentence]) -> None:
        """Let sentences of a tier join."""
        joining: dict[_RunnerKey, list[QueuedSentence]] = {}
        for queued in sentences:
            joining.setdefault(_RunnerKey(queued.request.model, tier), []).append(queued)
        for key, each in joining.items():
            began = time.perf_counter()
            with self._work_on(key, each):
                self._runner(key).admit(each)
            tokens = sum([queued.source_tokens for queued in each])
            self._scheduler.record_joining(self._number, tokens, time.perf_counter() - began)

    def _runner(self, key: _RunnerKey) -> ModelRunner:
        """Return what decodes a tier of a model; made with the first sentence, because models come and go."""
        if key not in self._runners:
            interrupt = self._scheduler.interrupts[self._number]
            self._runners[key] = ModelRunner(key.model, worker=self._number, interrupt=interrupt)
        return self._runners[key]

    @contextmanager
    def _work_on(self, key: _RunnerKey, newcomers: Sequence[QueuedSentence] = ()) -> Iterator[None]:
        """Charge the time of a part of the work to its tier; if it fails, the callers who wait get the error."""
        started = time.perf_counter()
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the thread must live on
            if key in self._runners:
                self._runners[key].fail(error)
            for queued in newcomers:
                queued.request.fail(error)
        finally:
            self._scheduler.charge(self._number, key.tier, time.perf_counter() - started)
