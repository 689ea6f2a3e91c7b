"""The scheduler: the state behind one lock, and its interface for the event loop and the workers."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Mapping, Sequence

from xuanzang.kernels.decode import Interrupt
from xuanzang.server.engine.decoding.decoder import BatchShape
from xuanzang.server.engine.errors import DeadlineExceededError, DrainingError
from xuanzang.server.engine.hardware import cache_bytes, memory_limit
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.decide import (
    NOTHING,
    Asked,
    Decision,
    decide,
    has_room,
    is_surely_in_time,
    require_place,
    require_time,
    seconds_until_begun,
    takers,
)
from xuanzang.server.engine.scheduling.forecast import RequestSize
from xuanzang.server.engine.scheduling.request import AbandonReason, DoneSentence, FlowKey, QueuedSentence, Request
from xuanzang.server.engine.scheduling.state import State
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import CallerId

# Share of a sentence's waiting time until it is due.
_PATIENT_SHARE = 0.7
# Maximum lead of callers' clocks over ours.
_CLOCK_SECONDS = 0.02


class Scheduler:
    """Sentences of all callers wait here until a worker has room for them.

    The event loop adds and removes requests; workers ask before each of their steps. Everything is guarded by one
    condition, which is held for short work only, waited on without polling, and left alone by workers as long as there
    is nothing for them.
    """

    def __init__(self, settings: EngineSettings, *, workers: int) -> None:
        # Held alone where no thread waits, which takes half as long.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._has_limit = bool(settings.max_cache_bytes)
        self._state = State(workers=workers, settings=settings, max_cache_bytes=settings.max_cache_bytes)
        self.interrupts = [Interrupt() for _ in range(workers)]
        """Flag of each worker; set when it should ask for work before its next step."""
        self.leave_memory(0)
        self._woken: set[int] = set()
        self._stopped = False

    @property
    def max_cache_bytes(self) -> int:
        """Maximum bytes for the keys and values of all sentences in batches."""
        return self._state.budget.max_bytes

    def leave_memory(self, weights_bytes: int) -> None:
        """Give keys and values their part of the memory that the weights of the models leave, unless a setting does."""
        if not self._has_limit:
            with self._lock:
                self._state.budget.max_bytes = cache_bytes(memory_limit(), weights_bytes)
                if self._state.budget.lacking:
                    self._tell_workers()

    @property
    def has_waiting(self) -> bool:
        """True if sentences wait for a worker; may be read without the lock."""
        return self._state.queue.count > 0

    def estimated_wait(self) -> float:
        """Estimate the time until the queue is empty, seconds; 0 before the first measurement."""
        with self._lock:
            return self._state.forecast.seconds_for(self._state.queue.cost) or 0.0

    def held_places(self, tier: int) -> int:
        """Return the places that sentences of a tier hold, all workers together."""
        with self._lock:
            return self._state.rows(tier)

    def waiting_places(self, tier: int) -> int:
        """Return the places that waiting sentences of a tier will take."""
        with self._lock:
            return sum(self._state.waiting(tier).values())

    def require_admission(self, asked: Asked, *, useful_until: float) -> None:
        """Refuse a request early that could not be submitted, by a lower bound of its work.

        Raises:
            OverloadedError: It does not fit now, or would not be done by a time on the clock of `time.monotonic`.
        """
        with self._lock:
            state, now = self._state, time.monotonic()
            # Idle workers refuse nothing, so that estimates are renewed when the load has fallen.
            if not asked.cost or state.is_idle:
                return
            require_place(state, asked)
            state.forecast.calibration.forget(now)
            if not is_surely_in_time(state, asked, useful_until - now):
                require_time(state, asked, useful_until - now, now)

    def require_time(self, caller: CallerId, seconds: float) -> None:
        """Raise OverloadedError for an unread request, if none of its possible work could be begun in time.

        It may be as small as any of late, and a part of the answer may be enough for its caller.
        """
        asked = Asked(FlowKey(caller), self._state.forecast.smallest_cost, accepts_part=True)
        self.require_admission(asked, useful_until=time.monotonic() + seconds)

    def seconds_until_begun(self, caller: CallerId) -> float | None:
        """Estimate when a request of a caller would be begun; None if no worker has more than a sentence to work on."""
        with self._lock:
            if self._state.is_calm:
                return None
            asked = Asked(FlowKey(caller), self._state.forecast.smallest_cost)
            return seconds_until_begun(self._state, asked, time.monotonic()) or 0.0

    def submit(self, request: Request, *, follows: bool = False) -> None:
        """Put all sentences of a request into the queue, or none; the caller must `close` it in any case.

        `follows`: whether it goes on with an accepted one, so that it must be accepted, too, and has waited already.

        Raises:
            OverloadedError: They do not fit, or would not be done before the deadline.
            MemoryLimitError: A sentence needs more memory than it may ever have.
            DrainingError: The scheduler has been stopped.
            DeadlineExceededError: The deadline has passed.
        """
        with self._lock:
            if self._stopped:
                raise DrainingError("the server stopped before the translation was begun")
            state, now = self._state, time.monotonic()
            state.budget.require_possible(request.sentences)
            if not follows:
                self._admit(request, now)
            for queued in request.sentences:
                queued.due_at = now if follows else self._due_at(queued, now)
            state.ask(request, now)
            request.model.metrics.requests_waiting.value += 1
            request.model.metrics.queue_tokens.value += request.cost
            # An idle worker has room for any sentence, unless its model may not have all workers.
            self._changed.notify(len(state.workers) if request.flow.limited else len(request.sentences))
            # A worker amid steps is notified once; a full one asks when it has room again.
            untold = [worker for worker, interrupt in enumerate(self.interrupts) if not interrupt.is_set]
            for worker in takers(state, untold, request.flow, now):
                self.interrupts[worker].set()

    def _admit(self, request: Request, now: float) -> None:
        state = self._state
        state.forecast.record_request(RequestSize(request.cost, request.longest))
        seconds = request.useful_until - now
        if seconds <= 0:
            raise DeadlineExceededError("the deadline passed before the request was queued", in_queue=True)
        state.forecast.calibration.forget(now)
        asked = Asked(request.flow, request.cost, request.longest, request.places, request.accepts_part)
        require_place(state, asked)
        request.estimate = require_time(state, asked, seconds, now)

    def _due_at(self, queued: QueuedSentence, now: float) -> float:
        """Return the time of a sentence's precedence over others of its caller, so that its deadline can be met."""
        if math.isinf(queued.request.useful_until):
            return math.inf
        seconds = self._state.forecast.seconds_in_batch(queued.target_tokens)
        return now + _PATIENT_SHARE * (queued.request.useful_until - seconds - now)

    def close(self, request: Request, abandoned: AbandonReason | None) -> None:
        """Remove the rest of a submitted request; sentences in a batch leave at the next step."""
        request.abandoned = abandoned
        with self._lock:
            _count_removed(self._state.settle(request))
            if abandoned:
                # Others may have waited for memory behind the removed ones.
                self._tell_workers()
            metrics = request.model.metrics
            (metrics.requests_running if request.started else metrics.requests_waiting).value -= 1
            self._calibrate(request, abandoned)

    def _calibrate(self, request: Request, abandoned: AbandonReason | None) -> None:
        """Compare the time that a request took with its estimate, unless it was given up for another reason."""
        if request.estimate is None:
            return
        calibration, now = self._state.forecast.calibration, time.monotonic()
        if abandoned is None:
            calibration.observe(request.estimate, now - request.submitted_at, submitted_at=request.submitted_at)
        # A caller whose clock runs out hangs up a moment before the deadline known here. One that hangs up
        # before says nothing of the server, however long it has waited: it alone knows how long it meant to.
        elif abandoned == "deadline" or (abandoned == "cancelled" and now >= request.useful_until - _CLOCK_SECONDS):
            allowed = request.useful_until - request.submitted_at
            calibration.observe_expiry(request.estimate, allowed, now=now)

    def take(self, worker: int, *, idle_seconds: float | None = None) -> Decision | None:
        """Let the sentences join that a worker has room for; wait for some if it has nothing else to do.

        Returns:
            The worker's next work; None when the scheduler has been stopped and the worker has no sentences. If none
            join and none run, it was woken, or has waited in vain.
        """
        # Later work sets it again.
        self.interrupts[worker].clear()
        state = self._state
        running = bool(state.workers[worker].sentences)
        waited_in_vain = False
        with self._lock:
            # Not before the lock: what is submitted between the two would join without leaving the queue.
            if running and not state.queue.count:
                return decide(state, worker, time.monotonic())
            while True:
                if self._stopped:
                    return NOTHING if running else None
                if worker in self._woken:
                    self._woken.remove(worker)
                    return NOTHING
                decision = self._decided(worker)
                if running or decision.joins or decision.trims:
                    self._note_what_is_left(worker, was_idle=not running)
                    return decision
                if waited_in_vain:
                    if state.queue.count:
                        self._changed.notify()  # for work that came as the time ended
                    return NOTHING
                # Waiting sentences are for other workers, or need memory: look again after a change.
                waited_in_vain = not self._changed.wait(idle_seconds)

    def _decided(self, worker: int) -> Decision:
        """Decide, give up the requests of sentences that cannot be done in time, and let the others join."""
        state, now = self._state, time.monotonic()
        while (decision := decide(state, worker, now)).hopeless:
            for queued in decision.hopeless:
                if not queued.request.abandoned:
                    self._give_up(queued.request)
        state.join(worker, decision.joins)
        for sentences in decision.joins.values():
            _count_started(sentences, now)
            self._report(sentences)
        # Memory that workers keep for later sentences is released if that makes room for a waiting one.
        if decision.lacking != state.budget.lacking:
            state.budget.lacking = dict(decision.lacking)
            self._tell_workers()
        return decision

    def _give_up(self, request: Request) -> None:
        """End a request before its deadline, so that its sentences stop taking time from others."""
        request.abandoned = "deadline"
        self._tell_workers()
        _count_removed(self._state.withdraw(request))
        message = "the deadline would pass before the translation is done"
        request.fail(DeadlineExceededError(message, in_queue=not request.started))

    def _note_what_is_left(self, worker: int, *, was_idle: bool) -> None:
        """Let a worker look again after its first step, if sentences other than its own may join."""
        if not self._state.queue.count or not has_room(self._state, worker, time.monotonic()):
            self.interrupts[worker].clear()
        elif was_idle:
            self.interrupts[worker].set()

    def _tell_workers(self) -> None:
        """Notify workers of a change: waiting ones at once, the others after their step."""
        self._changed.notify_all()
        for interrupt in self.interrupts:
            interrupt.set()

    def wake(self, worker: int) -> None:
        """Let a worker look after its models, even if it waits for sentences."""
        with self._lock:
            self._woken.add(worker)
            self._tell_workers()

    def record_joining(self, worker: int, source_tokens: int, seconds: float) -> None:
        """Measure how long the sentences of a worker had to stop for others that joined."""
        self._state.workers[worker].joining.record(source_tokens, seconds)

    def charge(self, worker: int, tier: int, seconds: float) -> None:
        """Count the time that a worker spent on a tier; its own, so that no lock is needed."""
        self._state.workers[worker].charge(tier, seconds, self._state.callers.light_weight)

    def sentences(self, worker: int) -> int:
        """Return how many sentences a worker has, which it alone lets leave."""
        return len(self._state.workers[worker].sentences)

    def leave(self, worker: int, running: Collection[QueuedSentence]) -> None:
        """Take note which sentences a worker still decodes; all others have left."""
        state = self._state
        with self._lock:
            left = state.workers[worker].sentences - set(running)
            for queued in left:
                state.leave(worker, queued)
            self._report(left)
            if state.budget.lacking or state.queue.has_limited:
                self._tell_workers()

    def hold(self, worker: int, model: LoadedModel, tier: int, held: Mapping[BatchShape, int]) -> None:
        """Take note of the bytes that a worker holds for the batches of a model, empty ones included."""
        with self._lock:
            self._state.budget.hold(worker, model, tier, held)
            self._state.budget.report(model)
            if self._state.budget.lacking:
                self._tell_workers()

    def _report(self, sentences: Collection[QueuedSentence]) -> None:
        for model in {queued.request.model for queued in sentences}:
            self._state.budget.report(model)

    def record(self, worker: int, done: Sequence[DoneSentence], *, seconds: float) -> None:
        """Measure the sentences that have left a worker, at least one, since it last recorded."""
        with self._lock:
            state = self._state
            for queued, cost, in_batch, target_tokens, is_whole in done:
                rows = max(1, state.workers[worker].tiers[queued.tier].rows)
                state.forecast.record(queued.target_tokens, target_tokens, in_batch, rows=rows, is_whole=is_whole)
                state.queue.charge(queued.request.flow.caller, cost - queued.cost)
            state.forecast.record_work(sum([each.cost for each in done]), seconds)

    def stop(self) -> None:
        """Stop accepting requests and giving out sentences."""
        with self._lock:
            self._stopped = True
            self._tell_workers()


def _count_started(sentences: Sequence[QueuedSentence], now: float) -> None:
    """Count the sentences that a worker has taken, and requests whose first they are as begun."""
    for queued in sentences:
        metrics = queued.request.model.metrics
        metrics.queue_tokens.value -= queued.cost
        metrics.queue_duration_seconds.observe(now - queued.queued_at)
        if not queued.request.started:
            queued.request.started = True
            metrics.requests_waiting.value -= 1
            metrics.requests_running.value += 1


def _count_removed(sentences: Sequence[QueuedSentence]) -> None:
    for queued in sentences:
        queued.request.model.metrics.queue_tokens.value -= queued.cost
