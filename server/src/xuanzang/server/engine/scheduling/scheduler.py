"""The scheduler: the state behind one lock, and its interface for the event loop and the workers."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from xuanzang.kernels.decode import Interrupt
from xuanzang.server.engine.decoding.decoder import BatchShape
from xuanzang.server.engine.errors import DeadlineExceededError, DrainingError, EngineError
from xuanzang.server.engine.hardware import cache_bytes, memory_limit
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.decide import Asked, Decision, decide, estimate, require_place, require_time
from xuanzang.server.engine.scheduling.queue import TIERS
from xuanzang.server.engine.scheduling.request import AbandonReason, FlowKey, QueuedSentence, Request
from xuanzang.server.engine.scheduling.state import State
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import CallerId

# Maximum lead of callers' clocks over ours.
_CLOCK_SECONDS = 0.02


class Scheduler:
    """Sentences of all callers wait here until a worker has room for them.

    The event loop adds and removes requests; workers ask before each of their steps. Everything is guarded by one
    condition, which is held for short work only, and waited on without polling.
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
                self._tell_workers(if_lacking=True)

    @property
    def has_waiting(self) -> bool:
        """True if sentences wait for a worker; may be read without the lock."""
        return self._state.queue.count > 0

    def estimated_wait(self) -> float:
        """Estimate the time until the queue is empty, seconds; 0 before the first measurement."""
        with self._lock:
            return self._state.forecast.seconds_for(self._state.queue.cost, workers=len(self._state.workers))

    def held_places(self, tier: int) -> int:
        """Return the places that sentences of a tier hold, all workers together."""
        with self._lock:
            return self._state.rows(tier)

    def waiting_places(self, tier: int) -> int:
        """Return the places that waiting sentences of a tier will take."""
        with self._lock:
            return self._state.queue.waiting(tier)

    def reserved_bytes(self, labels: tuple[str, str]) -> int:
        """Return the bytes for keys and values that are reserved for the model of a name and version."""
        with self._lock:
            return self._state.budget.reserved(labels)

    def serving(self, labels: tuple[str, str]) -> int:
        """Return the number of workers that decode with the model of a name and version."""
        with self._lock:
            return len(self._state.budget.serving(labels))

    def require_admission(self, asked: Asked, *, useful_until: float) -> None:
        """Refuse a request early that could not be submitted, by a lower bound of its work.

        Raises:
            OverloadedError: It does not fit now, or would not be done by a time on the clock of `time.monotonic`.
        """
        with self._lock:
            state, now = self._state, time.monotonic()
            # Idle workers refuse nothing, so that estimates are renewed when the load has fallen.
            if asked.cost and not state.is_idle:
                require_place(state, asked)
                state.forecast.calibration.forget(now)
                require_time(state, asked, useful_until - now)

    def require_time(self, caller: CallerId, seconds: float) -> None:
        """Raise OverloadedError for an unread request, if none of its possible work could be begun in time.

        It may be as small as any of the last ones, and a part of the answer may be enough for its caller.
        """
        asked = Asked(FlowKey(caller), self._state.forecast.smallest_cost, accepts_part=True)
        self.require_admission(asked, useful_until=time.monotonic() + seconds)

    def seconds_until_begun(self, caller: CallerId) -> float | None:
        """Estimate when a request of a caller would be begun; None if no worker has more than a sentence to work on."""
        with self._lock:
            state = self._state
            if not state.queue.count and sum(map(state.rows, TIERS)) <= len(state.workers):
                return None
            return estimate(state, Asked(FlowKey(caller), state.forecast.smallest_cost)).begun

    def submit(self, request: Request, *, follows: bool = False) -> None:
        """Put all sentences of a request into the queue, which the caller must `close`, or none.

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
            state = self._state
            state.budget.require_possible(request.sentences)
            state.queue.open(request.flow.caller, request.places)
            try:
                if not follows:
                    self._admit(request)
            except EngineError:
                state.queue.close(request.flow.caller, request.places)
                raise
            tier = state.queue.tier_of(request.flow.caller)
            others_wait = state.queue.waiting(tier) > 0
            state.queue.add(request.sentences, first=follows)
            request.model.metrics.requests_waiting.value += 1
            request.model.metrics.queue_tokens.value += request.cost
            # An idle worker has room for any sentence, unless its model may not have all workers.
            idle, limited = sum([worker.is_idle for worker in state.workers]), request.flow.limited
            self._changed.notify(idle if limited else len(request.sentences))
            # Where others wait already, workers have no room, and ask when they have again.
            if (len(request.sentences) > idle or limited) and not others_wait:
                for worker, interrupt in zip(state.workers, self.interrupts, strict=True):
                    if not worker.is_idle and worker.tiers[tier].rows < state.max_places:
                        interrupt.set()

    def _admit(self, request: Request) -> None:
        state, now = self._state, time.monotonic()
        state.forecast.record_request(request.cost, request.longest)
        if request.useful_until <= now:
            raise DeadlineExceededError("the deadline passed before the request was queued", in_queue=True)
        state.forecast.calibration.forget(now)
        asked = Asked(request.flow, request.cost, request.longest, request.places, request.accepts_part)
        require_place(state, asked)
        request.estimate = require_time(state, asked, request.useful_until - now)

    def close(self, request: Request, abandoned: AbandonReason | None) -> None:
        """Remove the rest of a submitted request; sentences in a batch leave at the next step."""
        request.abandoned = abandoned
        with self._lock:
            state, metrics = self._state, request.model.metrics
            if abandoned:
                state.budget.forget(request.sentences)
                for queued in state.queue.remove(request.sentences):
                    metrics.queue_tokens.value -= queued.cost
                # Others may have waited for memory behind the removed ones.
                self._tell_workers()
            state.queue.close(request.flow.caller, request.places)
            (metrics.requests_running if request.started else metrics.requests_waiting).value -= 1
            self._calibrate(request, abandoned)

    def _calibrate(self, request: Request, abandoned: AbandonReason | None) -> None:
        """Compare the time that a request took with its estimate, unless it was given up for another reason."""
        if not request.estimate:
            return
        calibration, now = self._state.forecast.calibration, time.monotonic()
        if abandoned is None:
            calibration.observe(request.estimate, now - request.submitted_at)
        # A caller whose clock runs out hangs up a moment before the deadline known here. One that hangs up
        # before says nothing of the server, however long it has waited: it alone knows how long it meant to.
        elif abandoned == "deadline" or (abandoned == "cancelled" and now >= request.useful_until - _CLOCK_SECONDS):
            calibration.observe_expiry(request.estimate, request.useful_until - request.submitted_at)

    def take(self, worker: int, *, idle_seconds: float | None = None) -> Decision | None:
        """Let the sentences join that a worker has room for; wait for some if it has nothing else to do.

        Returns:
            The worker's next work; None when the scheduler has been stopped and the worker has no sentences. If none
            join and none run, it was woken, or has waited in vain.
        """
        # Later work sets it again.
        self.interrupts[worker].clear()
        state = self._state
        is_idle, waited_in_vain = state.workers[worker].is_idle, False
        with self._lock:
            while True:
                if self._stopped and is_idle:
                    return None
                decision = decide(state, worker, time.monotonic())
                if self._stopped or worker in self._woken:
                    self._woken.discard(worker)
                    return decision._replace(joins={})
                self._apply(worker, decision)
                if decision.joins or decision.trims or not is_idle:
                    return decision
                if waited_in_vain:
                    if state.queue.count:
                        self._changed.notify()  # for work that came as the time ended
                    return decision
                # Waiting sentences are for other workers, or need memory: look again after a change.
                waited_in_vain = not self._changed.wait(idle_seconds)

    def _apply(self, worker: int, decision: Decision) -> None:
        """Let sentences join as decided, and count them, and the requests of which they are the first."""
        state, now = self._state, time.monotonic()
        has_changed = decision.budget.lacking != state.budget.lacking
        state.join(worker, decision.joins, decision.budget)
        for queued in [queued for sentences in decision.joins.values() for queued in sentences]:
            request, metrics = queued.request, queued.request.model.metrics
            metrics.queue_tokens.value -= queued.cost
            metrics.queue_duration_seconds.observe(now - request.submitted_at)
            if not request.started:
                request.started = True
                metrics.requests_waiting.value -= 1
                metrics.requests_running.value += 1
        if has_changed:
            # Memory that workers keep for later sentences is released if that makes room for a waiting one.
            self._tell_workers()

    def _tell_workers(self, *, if_lacking: bool = False) -> None:
        """Notify workers of a change: waiting ones at once, the others after their step."""
        if if_lacking and not self._state.budget.lacking:
            return
        self._changed.notify_all()
        for interrupt in self.interrupts:
            interrupt.set()

    def wake(self, worker: int) -> None:
        """Let a worker look after its models, even if it waits for sentences."""
        with self._lock:
            self._woken.add(worker)
            self._tell_workers()

    def charge(self, worker: int, tier: int, seconds: float, *, is_joining: bool = False) -> None:
        """Count the time that a worker spent on a tier, perhaps for an encoder run; its own, without lock."""
        here = self._state.workers[worker]
        here.charge(tier, seconds, self._state.queue.light_weight)
        if is_joining:
            was_long = here.encodes_long
            here.record_joining(seconds)
            if was_long:
                with self._lock:
                    self._changed.notify_all()

    def leave(self, worker: int, sentences: Sequence[QueuedSentence], *, seconds: float) -> None:
        """Take note of sentences that have left a worker, in the seconds of its work since it last said so."""
        with self._lock:
            state = self._state
            state.leave(worker, sentences)
            state.forecast.record_work(sum([queued.worked for queued in sentences]), seconds)
            if state.budget.lacking or state.queue.limited:
                self._tell_workers()

    def hold(self, worker: int, model: LoadedModel, tier: int, held: Mapping[BatchShape, int]) -> None:
        """Take note of the bytes that a worker holds for the batches of a model, empty ones included."""
        with self._lock:
            self._state.budget.hold(worker, model, tier, held)
            self._tell_workers(if_lacking=True)

    def stop(self) -> None:
        """Stop accepting requests and giving out sentences."""
        with self._lock:
            self._stopped = True
            self._tell_workers()
