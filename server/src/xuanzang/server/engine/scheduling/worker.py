"""Workers: threads that decode, and for each model and tier a runner, which sentences join and leave at any step."""

from __future__ import annotations

import gc
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from xuanzang.kernels.decode import Interrupt, StepLimit
from xuanzang.server.engine.decoding.decoder import BatchShape
from xuanzang.server.engine.decoding.hypotheses import Sentence
from xuanzang.server.engine.hardware import flush_denormals, give_way, return_free_memory
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.decide import Decision
from xuanzang.server.engine.scheduling.request import Found, QueuedSentence
from xuanzang.server.engine.scheduling.scheduler import Scheduler

_LOGGER = logging.getLogger(__name__)

# An idle worker keeps its memory for so long, because fresh memory is slow at first.
_IDLE_SECONDS = 10.0
# A worker that never rests releases it from time to time: it would follow the largest batch ever.
_TRIM_SECONDS = 60.0
# A finished sentence may wait one step per this number of sentences in its batch: in a large one another finishes in
# nearly every step, and each return to Python costs all of them a part of a step.
_SENTENCES_PER_STEP = 4
# Steps of a large model take longer than a return to Python, so they save nothing.
_MAX_SECONDS_AFTER_DONE = 0.05


class ModelRunner:
    """The sentences of one tier that one worker decodes with one model: they join, take steps, and leave as ids."""

    def __init__(self, model: LoadedModel, *, worker: int, interrupt: Interrupt) -> None:
        """Start without sentences; setting `interrupt` makes the worker stop after the step that it takes."""
        self._model, self._worker, self._interrupt = model, worker, interrupt
        self._decoder = model.new_decoder()
        self.sentences: dict[Sentence, QueuedSentence] = {}
        """Sentences that are decoded."""
        self.left: list[QueuedSentence] = []
        """Sentences that have left, until the scheduler knows; their results are delivered."""
        self._steps = 0
        self._metrics = model.metrics
        self.held_bytes: dict[BatchShape, int] = {}
        """Bytes of keys and values by batch."""

    def join(self, newcomers: Sequence[QueuedSentence]) -> None:
        """Let sentences join."""
        tokens = sum([queued.source_tokens for queued in newcomers])
        self._metrics.batch_source_tokens.observe(tokens)
        self._metrics.source_tokens.inc(tokens)
        if self.sentences:
            self._metrics.rows_joined.inc(len(newcomers))
        self.sentences.update([(queued.sentence, queued) for queued in newcomers])
        taken_at = time.monotonic()
        self._decoder.admit([queued.sentence for queued in newcomers])
        encoded_at = time.monotonic()
        self._metrics.encode_duration_seconds.observe(encoded_at - taken_at)
        for queued in newcomers:
            queued.taken_at, queued.encoded_at = taken_at, encoded_at
            queued.first_step, queued.batch_size = self._steps, len(self.sentences)
        self._count_cache()

    def step(self, steps: int, seconds: float = math.inf, *, has_newcomers: bool = True) -> None:
        """Extend every sentence by one token or more, after abandoned ones and those at their cutoff have left.

        There are fewer steps when a sentence is done or at its cutoff, when its caller reads along, or when somebody
        interrupts; none is begun after the given seconds. Sentences of one request, which is answered as a whole, wait
        for each other unless `has_newcomers`, which may want their places.
        """
        self._leave_early(time.monotonic())
        if not self.sentences:
            return
        started = time.monotonic()
        requests = {queued.request for queued in self.sentences.values()}
        reads_along = any(request.reads_along for request in requests)
        limit = step_limit(
            len(self.sentences),
            is_whole=len(requests) == 1 and not has_newcomers,
            steps=1 if reads_along else steps,
            seconds=min(seconds, *[request.cutoff - started for request in requests]),
            interrupt=self._interrupt,
        )
        advance = self._decoder.advance(limit)
        ended_at = time.monotonic()
        each = (ended_at - started) / advance.steps
        self._metrics.decode_step_duration_seconds.observe(each, times=advance.steps)
        self._metrics.batch_rows.observe(len(self.sentences), times=advance.steps)
        self._steps += advance.steps
        for (sentence, hypotheses), ago in zip(advance.done, advance.steps_ago, strict=True):
            queued = self._leave(sentence, ended_at - ago * each, steps_ago=ago, is_whole=True)
            self._metrics.decode_duration_seconds.observe(queued.finished_at - queued.taken_at)
            queued.request.deliver(queued.position, Found(hypotheses, queued.timeline(self._worker)))
        if reads_along:
            self._report_prefixes()
        if advance.done:
            self._count_cache()

    def _leave(self, sentence: Sentence, finished_at: float, *, steps_ago: int = 0, is_whole: bool) -> QueuedSentence:
        queued = self.sentences.pop(sentence)
        queued.steps = self._steps - steps_ago - queued.first_step
        queued.finished_at, queued.is_whole = finished_at, is_whole
        self.left.append(queued)
        return queued

    def _leave_early(self, now: float) -> None:
        """Let sentences leave that are abandoned, or at their cutoff: then the best found so far is delivered."""
        leaving = [
            queued for queued in self.sentences.values() if queued.request.abandoned or now >= queued.request.cutoff
        ]
        for queued in leaving:
            reason = queued.request.abandoned
            partial = [] if reason else self._decoder.partial(queued.sentence)
            self._leave(queued.sentence, now, is_whole=False)
            self._metrics.rows_retired[reason or "deadline"].inc()
            if not partial:
                self._metrics.wasted_decode_tokens.inc(queued.steps)
            if not reason:
                queued.request.deliver(queued.position, Found(partial, queued.timeline(self._worker), is_cut=True))
        if leaving:
            self._decoder.discard([queued.sentence for queued in leaving])
            self._count_cache()

    def _report_prefixes(self) -> None:
        for queued in self.sentences.values():
            if queued.request.reads_along:
                committed = self._decoder.committed(queued.sentence)
                if len(committed) > queued.reported_tokens:
                    queued.reported_tokens = len(committed)
                    queued.request.report_prefix(queued.position, committed)

    def release(self) -> None:
        """Free the memory for keys, values and intermediate results, if no sentence is running."""
        if not self.sentences:
            self._decoder = self._model.new_decoder()
            self._count_cache()
            self._decoder.shrink()

    def trim(self, *, shrinks: bool = False) -> None:
        """Give back memory of keys and values that no sentence needs; if it `shrinks`, of intermediate results, too."""
        self._decoder.trim()
        self._count_cache()
        if shrinks:
            self._decoder.shrink()

    def close(self) -> None:
        """Count the memory as free that goes with the runner; no sentence may be running."""
        self._metrics.cache_bytes.dec(sum(self.held_bytes.values()))

    def fail(self, error: Exception) -> None:
        """Answer every sentence with an error and begin anew."""
        for sentence in list(self.sentences):
            self._metrics.rows_retired["error"].inc()
            self._leave(sentence, time.monotonic(), is_whole=False).request.fail(error)
        self._decoder = self._model.new_decoder()
        self._count_cache()

    def _count_cache(self) -> None:
        before = sum(self.held_bytes.values())
        self.held_bytes = {shape: size for shape, size in self._decoder.held_bytes.items() if size}
        self._metrics.cache_bytes.inc(sum(self.held_bytes.values()) - before)


def step_limit(sentences: int, *, is_whole: bool, steps: int, seconds: float, interrupt: Interrupt) -> StepLimit:
    """Return when steps of a batch end.

    `is_whole`: True if its sentences are one request, which is answered after the last one, and no
    other sentence waits for a place.
    """
    after_done = steps if is_whole else sentences // _SENTENCES_PER_STEP
    return StepLimit(steps, seconds, interrupt, after_done, _MAX_SECONDS_AFTER_DONE)


class _RunnerKey(NamedTuple):
    """Model and tier of the sentences that a model runner decodes."""

    model: LoadedModel
    tier: int


class Worker:
    """One thread, which follows the decisions of the scheduler."""

    def __init__(self, number: int, *, scheduler: Scheduler, on_fault: Callable[[], None]) -> None:
        """Start the thread; `on_fault` is called in it if an error ends it."""
        self._number, self._on_fault = number, on_fault
        self.has_failed = False
        """True if an error has ended the thread."""
        self._scheduler = scheduler
        self._runners: dict[_RunnerKey, ModelRunner] = {}
        self._held: dict[_RunnerKey, dict[BatchShape, int]] = {}
        """Bytes that the scheduler knows of."""
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
        # The event loop, which refuses excess requests, must not wait for a core.
        give_way()
        # A worker that has freed its memory waits for sentences without limit.
        idle_seconds = None
        while (decision := self._scheduler.take(self._number, idle_seconds=idle_seconds)) is not None:
            is_old = time.perf_counter() - self._untrimmed_since >= _TRIM_SECONDS
            tidies = bool(self._dropping) or decision.trims or is_old
            if self._dropping:
                self._drop_models()
            if decision.trims or is_old:
                self._trim(shrinks=is_old)
            if decision.joins or self._running():
                self._serve(decision)
                idle_seconds = _IDLE_SECONDS
            elif not tidies:
                self._release()
                idle_seconds = None
            self._report()

    def _running(self) -> list[_RunnerKey]:
        return [key for key, runner in self._runners.items() if runner.sentences]

    def _serve(self, decision: Decision) -> None:
        """Let sentences join, and take the steps that were decided: one of each model, or several of the only one."""
        if not self._running():
            self._busy_since = time.perf_counter()
            self._untrimmed_since = min(self._untrimmed_since, self._busy_since)
        for tier, sentences in decision.joins.items():
            joining: dict[LoadedModel, list[QueuedSentence]] = {}
            for queued in sentences:
                joining.setdefault(queued.request.model, []).append(queued)
            for model, newcomers in joining.items():
                self._join(_RunnerKey(model, tier), newcomers)
        running = self._running()
        # Those of another tier if its own could not join.
        turn = [key for key in running if key.tier == decision.step] or running
        steps, seconds = (decision.max_steps, decision.max_seconds) if len(turn) == 1 else (1, math.inf)
        for key in turn:
            self._step(key, steps, seconds)

    def _join(self, key: _RunnerKey, newcomers: Sequence[QueuedSentence]) -> None:
        """Let sentences join; a runner is made with the first of its model, because models come and go."""
        started = time.perf_counter()
        try:
            if key not in self._runners:
                interrupt = self._scheduler.interrupts[self._number]
                self._runners[key] = ModelRunner(key.model, worker=self._number, interrupt=interrupt)
            self._runners[key].join(newcomers)
        except Exception as error:  # noqa: BLE001 - the thread must live on
            if key in self._runners:
                self._runners[key].fail(error)
            else:
                self._scheduler.leave(self._number, newcomers, seconds=0.0)
                for queued in newcomers:
                    queued.request.fail(error)
        self._scheduler.charge(self._number, key.tier, time.perf_counter() - started, is_joining=True)

    def _step(self, key: _RunnerKey, steps: int, seconds: float) -> None:
        started, runner = time.perf_counter(), self._runners[key]
        try:
            runner.step(steps, seconds, has_newcomers=self._scheduler.has_waiting)
        except Exception as error:  # noqa: BLE001 - as above
            runner.fail(error)
        self._scheduler.charge(self._number, key.tier, time.perf_counter() - started)

    def _report(self) -> None:
        """Tell the scheduler which sentences have left, and what memory is held."""
        if left := [queued for runner in self._runners.values() for queued in runner.left]:
            now = time.perf_counter()
            self._scheduler.leave(self._number, left, seconds=now - self._busy_since)
            self._busy_since = now
            for runner in self._runners.values():
                runner.left.clear()
        held = {key: runner.held_bytes for key, runner in self._runners.items()}
        if held != self._held:
            for key in held.keys() | self._held.keys():
                if held.get(key) != self._held.get(key):
                    self._scheduler.hold(self._number, key.model, key.tier, held.get(key, {}))
            self._held = held

    def _drop_models(self) -> None:
        """Release unused models, at least one."""
        dropped = []
        while self._dropping:
            model, future = self._dropping.popleft()
            dropped.append(future)
            for key in [key for key in self._runners if key.model is model]:
                self._runners.pop(key).close()
            # The waiter for the futures closes the graphs, which are unused then.
            del model
        self._report()
        return_free_memory()
        for future in dropped:
            future.set_result(None)

    def _trim(self, *, shrinks: bool) -> None:
        """Give back memory, because others wait for it, or also that of the graphs, because it was kept for long."""
        for runner in self._runners.values():
            try:
                runner.trim(shrinks=shrinks)
            except Exception as error:  # noqa: BLE001 - as above
                runner.fail(error)
        if shrinks:
            # By default Python looks for cycles of old objects only when there are a million of them.
            gc.collect()
            self._untrimmed_since = time.perf_counter()
        return_free_memory()

    def _release(self) -> None:
        try:
            for runner in self._runners.values():
                runner.release()
        except Exception:  # the thread must live on
            _LOGGER.exception("memory could not be freed")
        # Python looks for cycles, such as failed calls and their tracebacks, only after this number of new objects.
        gc.collect()
        return_free_memory()
        self._untrimmed_since = math.inf
