"""Workers: threads that decode, and for each model and tier a runner, which sentences join and leave at any step."""

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
from dataclasses import dataclass
from typing import NamedTuple

from xuanzang.kernels.decode import Interrupt, StepLimit
from xuanzang.server.engine.decoding.decoder import BatchShape
from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.hardware import flush_denormals, give_way, return_free_memory
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.decide import Decision
from xuanzang.server.engine.scheduling.request import DoneSentence, Found, QueuedSentence, SentenceTimeline
from xuanzang.server.engine.scheduling.scheduler import Scheduler

_LOGGER = logging.getLogger(__name__)

# An idle worker keeps its memory for so long, because fresh memory is slow at first.
_IDLE_SECONDS = 10.0
# A worker that never rests releases it from time to time: it would follow the largest batch ever.
_TRIM_SECONDS = 60.0
# Steps of a model between two looks at the clock, if nothing happens meanwhile; sentences are hardly ever longer.
_STEPS = 64
# A finished sentence may wait one step per this number of sentences in its batch: in a large one another finishes in
# nearly every step, and each return to Python costs all of them a part of a step.
_SENTENCES_PER_STEP = 4
# Steps of a large model take longer than a return to Python, so they save nothing.
_MAX_SECONDS_AFTER_DONE = 0.05


@dataclass(slots=True, eq=False, kw_only=True)
class _Running:
    queued: QueuedSentence
    first_step: int
    batch_size: int
    taken_at: float
    encoded_at: float = 0.0
    reported_tokens: int = 0

    def found(
        self, hypotheses: Sequence[TargetHypothesis], *, worker: int, step: int, ended_at: float, is_cut: bool = False
    ) -> Found:
        """Return the result, with the last step."""
        timeline = SentenceTimeline(
            queued_at=self.queued.queued_at,
            taken_at=self.taken_at,
            encoded_at=self.encoded_at,
            finished_at=ended_at,
            worker=worker,
            batch_size=self.batch_size,
            steps=step - self.first_step,
            max_target_length=self.queued.sentence.options.max_target_length,
        )
        return Found(hypotheses, timeline, is_cut)

    def done(self, step: int, ended_at: float, *, is_whole: bool) -> DoneSentence:
        """Return the times of work on it."""
        steps = step - self.first_step
        cost = self.queued.worked(steps)
        return DoneSentence(self.queued, cost, ended_at - self.taken_at, target_tokens=steps, is_whole=is_whole)


class ModelRunner:
    """The sentences of one tier that one worker decodes with one model: they join, take steps, and leave as ids."""

    def __init__(self, model: LoadedModel, *, worker: int, interrupt: Interrupt) -> None:
        """Start without sentences; setting `interrupt` makes the worker stop after the step that it takes."""
        self._model, self._worker, self._interrupt = model, worker, interrupt
        self._decoder = model.new_decoder()
        self._running: dict[Sentence, _Running] = {}
        self._steps = 0
        self._metrics = model.metrics
        self.held_bytes: dict[BatchShape, int] = {}
        """Bytes of keys and values by batch."""
        self._reported_bytes: dict[BatchShape, int] = {}

    def __len__(self) -> int:
        return len(self._running)

    @property
    def sentences(self) -> list[QueuedSentence]:
        """Sentences that are decoded."""
        return [running.queued for running in self._running.values()]

    def join(self, newcomers: Sequence[QueuedSentence]) -> None:
        """Let sentences join."""
        tokens = sum([queued.source_tokens for queued in newcomers])
        self._metrics.batch_source_tokens.observe(tokens)
        self._metrics.source_tokens.inc(tokens)
        if self._running:
            self._metrics.rows_joined.inc(len(newcomers))
        now, step, size = time.monotonic(), self._steps, len(self._running) + len(newcomers)
        joining = {
            queued.sentence: _Running(queued=queued, first_step=step, batch_size=size, taken_at=now)
            for queued in newcomers
        }
        self._running.update(joining)
        started = time.perf_counter()
        self._decoder.admit(tuple(joining))
        self._metrics.encode_duration_seconds.observe(time.perf_counter() - started)
        encoded_at = time.monotonic()
        for running in joining.values():
            running.encoded_at = encoded_at
        self._count_cache()

    def step(self, steps: int, seconds: float = math.inf, *, has_newcomers: bool = True) -> list[DoneSentence]:
        """Extend every sentence by one token or more, after abandoned ones and those at their cutoff have left.

        There are fewer steps when a sentence is done or at its cutoff, when its caller reads along, or when somebody
        interrupts; none is begun after the given seconds. Sentences of one request, which is answered as a whole, wait
        for each other unless `has_newcomers`, which may want their places.

        Returns:
            Sentences that have left; their results are delivered.
        """
        now, cutoff, reads_along = time.monotonic(), math.inf, False
        leaving, requests = [], set()
        for running in self._running.values():
            request = running.queued.request
            if request.abandoned or now >= request.cutoff:
                leaving.append(running)
                continue
            reads_along |= request.reads_along
            requests.add(request)
            cutoff = min(cutoff, request.cutoff)
        done = self._leave_early(leaving, now) if leaving else []
        if not self._running:
            return done
        limit = step_limit(
            len(self._running),
            is_whole=len(requests) == 1 and not has_newcomers,
            steps=1 if reads_along else steps,
            seconds=min(cutoff - now, seconds),
            interrupt=self._interrupt,
        )
        started = time.perf_counter()
        advance = self._decoder.advance(limit)
        each = (time.perf_counter() - started) / advance.steps
        self._metrics.decode_step_duration_seconds.observe(each, times=advance.steps)
        self._metrics.batch_rows.observe(len(self._running), times=advance.steps)
        self._steps += advance.steps
        now = time.monotonic()
        for (sentence, hypotheses), steps_ago in zip(advance.done, advance.steps_ago, strict=True):
            done.append(self._leave(self._running.pop(sentence), hypotheses, now - steps_ago * each, steps_ago))
        if reads_along:
            self._report_prefixes()
        if advance.done:
            self._count_cache()
        return done

    def _leave(
        self, running: _Running, hypotheses: Sequence[TargetHypothesis], ended_at: float, steps_ago: int
    ) -> DoneSentence:
        """Deliver the result of a sentence that finished some steps ago."""
        step = self._steps - steps_ago
        found = running.found(hypotheses, worker=self._worker, step=step, ended_at=ended_at)
        done = running.done(step, ended_at, is_whole=True)
        self._metrics.decode_duration_seconds.observe(done.seconds)
        running.queued.request.deliver(running.queued.position, found)
        return done

    def _leave_early(self, leaving: Sequence[_Running], now: float) -> list[DoneSentence]:
        """Let sentences leave that are abandoned, or at their cutoff: then the best found so far is delivered."""
        for running in leaving:
            queued, reason = running.queued, running.queued.request.abandoned
            self._metrics.rows_retired[reason or "deadline"].inc()
            partial = [] if reason else self._decoder.partial(queued.sentence)
            if not partial:
                self._metrics.wasted_decode_tokens.inc(self._steps - running.first_step)
            if not reason:
                found = running.found(partial, worker=self._worker, step=self._steps, ended_at=now, is_cut=True)
                queued.request.deliver(queued.position, found)
            del self._running[queued.sentence]
        self._decoder.discard([running.queued.sentence for running in leaving])
        self._count_cache()
        return [running.done(self._steps, now, is_whole=False) for running in leaving]

    def _report_prefixes(self) -> None:
        for running in self._running.values():
            queued = running.queued
            if queued.request.reads_along:
                committed = self._decoder.committed(queued.sentence)
                if len(committed) > running.reported_tokens:
                    running.reported_tokens = len(committed)
                    queued.request.report_prefix(queued.position, committed)

    def release(self) -> None:
        """Free the memory for keys, values and intermediate results, if no sentence is running."""
        if not self._running:
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
        failed = self.sentences
        self._running.clear()
        self._decoder = self._model.new_decoder()
        self._count_cache()
        for queued in failed:
            self._metrics.rows_retired["error"].inc()
            queued.request.fail(error)

    def changed_bytes(self) -> dict[BatchShape, int] | None:
        """Return the bytes of keys and values by batch, if they have changed since that was asked last."""
        if self.held_bytes == self._reported_bytes:
            return None
        self._reported_bytes = self.held_bytes
        return self.held_bytes

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
            tidied = (self._drop_models() if self._dropping else False) | self._trim(now=decision.trims)
            running = [key for key, runner in self._runners.items() if runner]
            if decision.joins or running:
                self._serve(decision, was_idle=not running)
                idle_seconds = _IDLE_SECONDS
            elif not tidied:
                self._release()
                idle_seconds = None
            self._report()

    def _serve(self, decision: Decision, *, was_idle: bool) -> None:
        """Let sentences join, and take the steps that were decided: one of each model, or several of the only one."""
        if was_idle:
            self._busy_since = time.perf_counter()
            self._untrimmed_since = min(self._untrimmed_since, self._busy_since)
        for tier, sentences in decision.joins.items():
            self._join(tier, sentences)
        running = [key for key, runner in self._runners.items() if runner]
        # Those of another tier if its own could not join.
        turn = [key for key in running if key.tier == decision.step] or running
        steps, seconds = (_STEPS, decision.max_seconds) if len(turn) == 1 else (1, math.inf)
        done: list[DoneSentence] = []
        for key in turn:
            has_newcomers = self._scheduler.has_waiting
            with self._work_on(key):
                done += self._runners[key].step(steps, seconds, has_newcomers=has_newcomers)
        if done:
            now = time.perf_counter()
            self._scheduler.record(self._number, done, seconds=now - self._busy_since)
            self._busy_since = now

    def _join(self, tier: int, sentences: Sequence[QueuedSentence]) -> None:
        """Let sentences of a tier join; a runner is made with the first of its model, because models come and go."""
        joining: dict[_RunnerKey, list[QueuedSentence]] = {}
        for queued in sentences:
            joining.setdefault(_RunnerKey(queued.request.model, tier), []).append(queued)
        for key, each in joining.items():
            began = time.perf_counter()
            with self._work_on(key, each):
                if key not in self._runners:
                    interrupt = self._scheduler.interrupts[self._number]
                    self._runners[key] = ModelRunner(key.model, worker=self._number, interrupt=interrupt)
                self._runners[key].join(each)
            tokens = sum([queued.source_tokens for queued in each])
            self._scheduler.record_joining(self._number, tokens, time.perf_counter() - began)

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

    def _report(self) -> None:
        """Tell the scheduler which sentences have left, and what memory is held."""
        if self._scheduler.sentences(self._number) != sum(map(len, self._runners.values())):
            running = [queued for runner in self._runners.values() for queued in runner.sentences]
            self._scheduler.leave(self._number, running)
        for key, runner in self._runners.items():
            if (held := runner.changed_bytes()) is not None:
                self._scheduler.hold(self._number, key.model, key.tier, held)

    def _drop_models(self) -> bool:
        """Release unused models, at least one."""
        dropped = []
        while self._dropping:
            model, future = self._dropping.popleft()
            dropped.append(future)
            for key in [key for key in self._runners if key.model is model]:
                self._runners.pop(key).close()
            # The waiter for the futures closes the graphs, which are unused then.
            del model
        return_free_memory()
        for future in dropped:
            future.set_result(None)
        return True

    def _trim(self, *, now: bool) -> bool:
        """Give back memory if others wait for it, or if the worker has kept it for long; return whether it did."""
        is_old = time.perf_counter() - self._untrimmed_since >= _TRIM_SECONDS
        if not now and not is_old:
            return False
        for runner in self._runners.values():
            try:
                runner.trim(shrinks=is_old)
            except Exception as error:  # noqa: BLE001 - as in _work_on
                runner.fail(error)
        if is_old:
            # By default Python looks for cycles of old objects only when there are a million of them.
            gc.collect()
            self._untrimmed_since = time.perf_counter()
        return_free_memory()
        return True

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
