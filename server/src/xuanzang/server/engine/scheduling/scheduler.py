"""The scheduler: the state behind one lock, and the words in which the event loop and the workers speak of it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from xuanzang.kernels.decode import Interrupt
from xuanzang.server.engine.decoding.decoder import BatchShape
from xuanzang.server.engine.errors import DeadlineExceededError, DrainingError
from xuanzang.server.engine.hardware import memory_limit
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.admission import Admission
from xuanzang.server.engine.scheduling.call import FlowKey
from xuanzang.server.engine.scheduling.decide import NOTHING, Decision, Room, decide, has_room
from xuanzang.server.engine.scheduling.forecast import RequestSize
from xuanzang.server.engine.scheduling.request import AbandonReason, DoneSentence, QueuedSentence, Request
from xuanzang.server.engine.scheduling.state import State
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import CallerId

# Part of the memory of the process that keys and values may take, unless a setting says it.
_MEMORY_SHARE = 2
# Share of the time that a sentence may wait after which it goes before others of its caller.
_PATIENT_SHARE = 0.7
# Clocks of callers are ahead of ours by at most so much.
_CLOCK_SECONDS = 0.02


class Scheduler:
    """Sentences of all callers wait here until a worker has room for them.

    The event loop adds and removes requests; workers ask before each of their steps. Everything is guarded by one
    condition, which is held for short work only, waited on without polling, and left alone by workers as long as there
    is nothing for them.
    """

    def __init__(self, settings: EngineSettings, *, workers: int) -> None:
        # Held by itself where nobody waits, which takes half as long.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._state = State(
            workers=workers,
            max_places=settings.max_batch_sentences,
            max_join_tokens=settings.max_join_source_tokens,
            max_cache_bytes=_max_cache_bytes(settings),
        )
        self._admission = Admission(self._state, max_tokens=settings.max_queue_tokens)
        self.interrupts = [Interrupt() for _ in range(workers)]
        """Of each worker; set when it should ask what there is for it before its next step."""
        self._woken: set[int] = set()
        self._trimming: set[int] = set()
        self._stopped = False

    @property
    def max_cache_bytes(self) -> int:
        """Maximum bytes for the keys and values of all sentences in batches."""
        return self._state.budget.max_bytes

    @property
    def has_waiting(self) -> bool:
        """Whether sentences wait for a worker; may be asked without the lock."""
        return self._state.queue.count > 0

    def _tell_workers(self) -> None:
        """Let workers look at what has changed, those that wait and, after the step that they take, the others."""
        self._changed.notify_all()
        for interrupt in self.interrupts:
            interrupt.set()

    def estimated_wait(self) -> float:
        """Estimate the time until the queue is empty, seconds; 0 before the first measurement."""
        with self._lock:
            return self._state.forecast.seconds_for(self._state.queue.cost) or 0.0

    def held_places(self, tier: int) -> int:
        """Return the places that sentences of a tier hold, all workers together."""
        with self._lock:
            return sum(each.tiers[tier].rows for each in self._state.workers)

    def waiting_places(self, tier: int) -> int:
        """Return the places that waiting sentences of a tier will take."""
        with self._lock:
            return sum(self._state.waiting(tier).values())

    def require_admission(self, flow: FlowKey, cost: int, *, useful_until: float, accepts_part: bool = False) -> None:
        """Refuse early what could not be submitted; see `Admission.require`."""
        with self._lock:
            self._admission.require(flow, cost, useful_until=useful_until, accepts_part=accepts_part)

    def require_time(self, caller: CallerId, seconds: float) -> None:
        """Raise OverloadedError for an unread request, if nothing that it may ask for could be begun in so much time.

        It may be as small as any of late, and a part of the answer may be enough for its caller.
        """
        with self._lock:
            cost = self._admission.request_sizes.smallest
            useful_until = time.monotonic() + seconds
            self._admission.require(FlowKey(caller), cost, useful_until=useful_until, accepts_part=True)

    def seconds_until_begun(self, caller: CallerId) -> float | None:
        """Estimate when a request of a caller would be begun; None if no worker has more than a sentence to work on."""
        with self._lock:
            return self._admission.seconds_until_begun(FlowKey(caller))

    def submit(self, request: Request, *, follows: bool = False) -> None:
        """Put all sentences of a request into the queue, or none; the caller must `close` it in any case.

        `follows`: whether it is the second part of an accepted one, so that it must be accepted, too.

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
            now = time.monotonic()
            if not follows:
                self._admission.request_sizes.record(RequestSize(request.cost, request.longest))
                if request.useful_until <= now:
                    raise DeadlineExceededError("the deadline passed before the request was queued", in_queue=True)
            self._admission.admit(request, now=now, follows=follows)
            self._set_urgency(request, now)
            state.ask(request, now)
            state.queue.add(request.sentences)
            request.model.metrics.requests_waiting.value += 1
            request.model.metrics.queue_tokens.value += request.cost
            # An idle worker has room for any sentence, unless its model may not have all workers.
            self._changed.notify(len(state.workers) if request.flow.limited else request.sentence_count)
            # One in the midst of steps is told, unless it knows; one that is full asks when it has room again.
            tier = state.callers.tier_of(request.flow.caller)
            waiting = state.waiting(tier)
            for worker, interrupt in enumerate(self.interrupts):
                if interrupt.is_set or not state.workers[worker].sentences:
                    continue
                if Room(state, worker, tier, waiting, now).has_place(request.flow):
                    interrupt.set()

    def _set_urgency(self, request: Request, now: float) -> None:
        """Set the time from which each sentence goes before others."""
        if request.useful_until < math.inf:
            for queued in request.sentences:
                seconds = self._state.forecast.seconds_in_batch(queued.target_tokens)
                queued.goes_first_at = now + _PATIENT_SHARE * (request.useful_until - seconds - now)

    def close(self, request: Request, abandoned: AbandonReason | None) -> None:
        """Remove what is left of a submitted request; sentences in a batch leave at the next step."""
        request.abandoned = abandoned
        with self._lock:
            self._state.settle(request)
            if abandoned:
                # Others may have waited for memory behind those that are left.
                self._remove(request)
                self._tell_workers()
            metrics = request.model.metrics
            (metrics.requests_running if request.started else metrics.requests_waiting).value -= 1
            self._calibrate(request, abandoned)

    def _calibrate(self, request: Request, abandoned: AbandonReason | None) -> None:
        """Compare the time that a request took with its estimate, unless it was given up for another reason."""
        if request.estimate is None:
            return
        calibration, now = self._state.forecast.calibration, time.monotonic()
        seconds = now - request.submitted_at
        if abandoned is None:
            calibration.observe(request.estimate, seconds, submitted_at=request.submitted_at)
        # A caller whose own clock runs out hangs up a moment before the deadline as it is known here. One that hangs up
        # before says nothing of the server, however long it has waited: it alone knows how long it meant to.
        elif abandoned == "deadline" or (abandoned == "cancelled" and now >= request.useful_until - _CLOCK_SECONDS):
            allowed = request.useful_until - request.submitted_at
            calibration.observe_expiry(request.estimate, allowed, now=now)

    def take(self, worker: int, *, idle_seconds: float | None = None) -> Decision | None:
        """Let the sentences join that a worker has room for; wait for some if it has nothing else to do.

        Returns:
            What the worker does next; None when the scheduler has been stopped and the worker has no sentences. If none
            join and none run, it was woken, or has waited in vain.
        """
        # What comes from now on sets it again.
        self.interrupts[worker].clear()
        state, here = self._state, self._state.workers[worker]
        running = bool(here.sentences)
        if running and not state.queue.count:
            return decide(state, worker, time.monotonic())
        with self._lock:
            while True:
                while not (running or self._stopped or state.queue.count or worker in self._woken):
                    # What came as the time ended has woken nobody else.
                    if not self._changed.wait(idle_seconds) and not state.queue.count:
                        return NOTHING
                if self._stopped:
                    return NOTHING if running else None
                if worker in self._woken:
                    self._woken.remove(worker)
                    return NOTHING
                decision = self._joined(worker)
                if decision.joins or running:
                    self._note_what_is_left(worker, was_idle=not running)
                    return decision
                # What waits is for other workers, or for memory: look again when anything has changed.
                if state.queue.count and worker not in self._woken and not self._changed.wait(idle_seconds):
                    self._changed.notify()  # for what came as the time ended
                    return NOTHING

    def _joined(self, worker: int) -> Decision:
        """Decide, give up the requests of sentences that cannot be done in time, and let the others join."""
        state, now = self._state, time.monotonic()
        while (decision := decide(state, worker, now)).hopeless:
            for queued in decision.hopeless:
                if not queued.request.abandoned:
                    self._give_up(queued.request)
        for tier, joining in decision.joins.items():
            state.join(worker, tier, joining)
            _count_started(joining, now)
        for queued, model in decision.lacking:
            state.budget.wait(queued, model)
        # Memory that workers keep for sentences to come is given back if that makes room for one that waits.
        if decision.lacking and (trimmable := state.budget.trimmable()) - self._trimming:
            self._trimming |= trimmable
            self._woken |= trimmable
            self._tell_workers()
        return decision

    def _note_what_is_left(self, worker: int, *, was_idle: bool) -> None:
        """Let a worker that has begun look again after its first step, if more may join, and not for what it took."""
        if not self._state.queue.count or not has_room(self._state, worker, time.monotonic()):
            self.interrupts[worker].clear()
        elif was_idle:
            self.interrupts[worker].set()

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

    def must_trim(self, worker: int) -> bool:
        """Whether a worker must give back the memory that its sentences do not need; asked once for each time."""
        if worker not in self._trimming:
            return False
        with self._lock:
            self._trimming.discard(worker)
            return True

    def _give_up(self, request: Request) -> None:
        """End a request before its deadline, so that its sentences take no more time from others."""
        request.abandoned = "deadline"
        self._tell_workers()
        self._remove(request)
        message = "the deadline would pass before the translation is done"
        request.fail(DeadlineExceededError(message, in_queue=not request.started))

    def _remove(self, request: Request) -> None:
        """Remove what is left of a request from the queue."""
        for queued in self._state.queue.remove(request.sentences):
            request.model.metrics.queue_tokens.value -= queued.cost
        self._state.budget.forget(request.sentences)

    def sentences(self, worker: int) -> int:
        """Return how many sentences a worker has, which it alone lets leave."""
        return len(self._state.workers[worker].sentences)

    def leave(self, worker: int, running: Collection[QueuedSentence]) -> None:
        """Take note which sentences a worker still decodes; all others have left."""
        state = self._state
        with self._lock:
            for queued in state.workers[worker].sentences - set(running):
                state.leave(worker, queued)
            if state.budget.lacking or state.queue.has_limited:
                self._tell_workers()

    def hold(self, worker: int, model: LoadedModel, tier: int, held: Mapping[BatchShape, int]) -> None:
        """Take note of the bytes that a worker holds for the batches of a model, empty ones included."""
        with self._lock:
            self._state.budget.hold(worker, model, tier, held)
            if self._state.budget.lacking:
                self._tell_workers()

    def record(self, worker: int, done: Sequence[DoneSentence], *, seconds: float) -> None:
        """Measure the sentences that a worker has answered or given up, at least one, since it last recorded."""
        with self._lock:
            state = self._state
            for each in done:
                queued = each.queued
                rows = state.workers[worker].tiers[queued.tier].rows
                state.forecast.record(
                    queued.target_tokens, each.target_tokens, each.seconds, rows=max(1, rows), is_whole=each.is_whole
                )
                state.queue.charge(queued.request.flow.caller, each.cost - queued.cost)
            state.forecast.record_work(sum([each.cost for each in done]), seconds)

    def stop(self) -> None:
        """Accept no requests and give out no sentences any more."""
        with self._lock:
            self._stopped = True
            self._tell_workers()


def _count_started(sentences: Iterable[QueuedSentence], now: float) -> None:
    """Count the sentences that a worker has taken, and requests whose first they are as begun."""
    for queued in sentences:
        metrics = queued.request.model.metrics
        metrics.queue_tokens.value -= queued.cost
        metrics.queue_duration_seconds.observe(now - queued.queued_at)
        if not queued.request.started:
            queued.request.started = True
            metrics.requests_waiting.value -= 1
            metrics.requests_running.value += 1


def _max_cache_bytes(settings: EngineSettings) -> int:
    return settings.max_cache_bytes or memory_limit() // _MEMORY_SHARE
