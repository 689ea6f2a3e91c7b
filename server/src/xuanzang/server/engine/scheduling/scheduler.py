"""The queue of sentences between the event loop and the workers, and the share of it that each worker gets."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from xuanzang.kernels.decode import Interrupt
from xuanzang.server.engine.errors import DeadlineExceededError, DrainingError
from xuanzang.server.engine.hardware import memory_limit
from xuanzang.server.engine.scheduling.admission import Admission
from xuanzang.server.engine.scheduling.call import FlowKey
from xuanzang.server.engine.scheduling.fair_queue import FairQueue, Sweep
from xuanzang.server.engine.scheduling.load import JoiningCost, RequestSize
from xuanzang.server.engine.scheduling.places import TIERS, Held, Places, Room, Turns
from xuanzang.server.engine.scheduling.request import AbandonReason, DoneSentence, QueuedSentence, Request
from xuanzang.server.engine.scheduling.reservations import BatchKey, BatchUse, Gate, Reservations
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import CallerId

# While lighter callers are expected, so many times fewer source tokens are encoded before the next look at the queue.
_JOINS_OF_YIELDING = 4
# Part of the memory of the process that keys and values may take, unless a setting says it.
_MEMORY_SHARE = 2


class Scheduler:
    """Sentences of all callers wait here until a worker has room for them.

    The event loop adds and removes requests; workers ask before each of their steps. Everything is guarded by one
    condition, which is held for short work only, waited on without polling, and left alone by workers as long as there
    is nothing for them.
    """

    def __init__(self, settings: EngineSettings, *, workers: int) -> None:
        self._settings, self._workers = settings, workers
        # Held by itself where nobody waits, which takes half as long.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._queue = FairQueue()
        limit = settings.max_batch_sentences
        self._places = Places(self._queue, workers=workers, max_batch_sentences=limit)
        # Half of the workers begin with the shortest sentences, half with the longest.
        self._sweeps = [[Sweep(upward=worker % 2 == 0) for _ in TIERS] for worker in range(workers)]
        self._admission = Admission(self._queue, self._places, workers=workers, max_tokens=settings.max_queue_tokens)
        self._joining_costs = [JoiningCost() for _ in range(workers)]
        self.joins_at = [math.inf] * workers
        """Time at which the sentences that wait will have waited long enough to join each worker, on the clock of
        `time.monotonic`; belongs to the worker."""
        self.turns = [Turns() for _ in range(workers)]
        """Whose batches each worker steps next; belongs to the worker."""
        self._reservations = Reservations(workers=workers, max_cache_bytes=_max_cache_bytes(settings))
        self.interrupts = [Interrupt() for _ in range(workers)]
        """Of each worker; set when it should ask what there is for it before its next step."""
        self._woken: set[int] = set()
        self._trimming: set[int] = set()
        # Whether workers have found sentences that wait for what others have.
        self._has_refused = False
        self._stopped = False

    @property
    def max_cache_bytes(self) -> int:
        """Maximum bytes for the keys and values of all sentences in batches."""
        return self._reservations.max_cache_bytes

    @property
    def has_waiting(self) -> bool:
        """Whether sentences wait for a worker; may be asked without the lock."""
        return self._queue.count > 0

    def _tell_workers(self) -> None:
        """Let workers look at what has changed, those that wait and, after the step that they take, the others."""
        self._changed.notify_all()
        for interrupt in self.interrupts:
            interrupt.set()

    def estimated_wait(self) -> float:
        """Estimate the time until the queue is empty, seconds; 0 before the first measurement."""
        with self._lock:
            return self._admission.estimated_wait()

    def held_places(self, tier: int) -> int:
        """Return the places that sentences of a tier hold, all workers together."""
        with self._lock:
            return self._places.held[tier].places

    def waiting_places(self, tier: int) -> int:
        """Return the places that waiting sentences of a tier will take."""
        with self._lock:
            return self._places.wanted(tier)

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
            self._reservations.require_possible(request.sentences)
            now = time.monotonic()
            if not follows:
                self._admission.request_sizes.record(RequestSize(request.cost, request.longest))
                if request.useful_until <= now:
                    raise DeadlineExceededError("the deadline passed before the request was queued", in_queue=True)
            self._admission.admit(request, now=now, follows=follows)
            self._admission.set_urgency(request, now)
            self._places.ask(request, now)
            self._queue.add(request.sentences)
            request.model.metrics.requests_waiting.value += 1
            request.model.metrics.queue_tokens.value += request.cost
            # An idle worker has room for any sentence, unless its model may not have all workers.
            self._changed.notify(self._workers if request.flow.limited else request.sentence_count)
            # One in the midst of steps is told, unless it knows; one that is full asks when it has room again.
            tiers, interrupts = self._places.tiers, self.interrupts
            if untold := [
                worker for worker, interrupt in enumerate(interrupts) if tiers[worker] and not interrupt.is_set
            ]:
                for worker in self._places.have_room(request.flow.caller, untold):
                    interrupts[worker].set()

    def close(self, request: Request, abandoned: AbandonReason | None) -> None:
        """Remove what is left of a submitted request; sentences in a batch leave at the next step."""
        request.abandoned = abandoned
        with self._lock:
            self._places.settle(request)
            if abandoned:
                # Others may have waited for memory behind those that are left.
                self._remove(request)
                self._tell_workers()
            metrics = request.model.metrics
            (metrics.requests_running if request.started else metrics.requests_waiting).value -= 1
            self._admission.calibrate(request, abandoned)

    def take(self, worker: int, *, idle_seconds: float | None = None) -> list[QueuedSentence] | None:
        """Give a worker the sentences that it has room for; wait for some if it has nothing else to do.

        Returns:
            Sentences of any models, empty if the worker should go on with those it has, was woken, or has waited in
            vain; None when the scheduler has been stopped and the worker has none.
        """
        # What comes from now on sets it again.
        self.interrupts[worker].clear()
        self.joins_at[worker] = math.inf
        running = self._places.tiers[worker]
        if running and not self._queue.count:
            self.turns[worker].begin(running)
            return []
        with self._lock:
            while True:
                while not (running or self._stopped or self._queue.count or worker in self._woken):
                    # What came as the time ended has woken nobody else.
                    if not self._changed.wait(idle_seconds) and not self._queue.count:
                        return []
                if self._stopped:
                    return [] if running else None
                if worker in self._woken:
                    self._woken.remove(worker)
                    return []
                taken = self._take_hopeful(worker)
                self._note_what_is_left(worker, was_idle=not running)
                if taken or running:
                    _count_started(taken)
                    return taken
                # What waits is for other workers, or for memory: look again when anything has changed.
                if self._queue.count and worker not in self._woken and not self._changed.wait(idle_seconds):
                    self._changed.notify()  # for what came as the time ended
                    return []

    def _note_what_is_left(self, worker: int, *, was_idle: bool) -> None:
        """Let a worker that has begun look again after its first step, if more may join, and not for what it took."""
        if not (self._queue.count and self._places.rooms(worker)):
            self.interrupts[worker].clear()
        elif was_idle:
            self.interrupts[worker].set()

    def wake(self, worker: int) -> None:
        """Let a worker look after its models, even if it waits for sentences."""
        with self._lock:
            self._woken.add(worker)
            self._tell_workers()

    def _take_hopeful(self, worker: int) -> list[QueuedSentence]:
        """Take sentences, and give up the requests of those that cannot be done in time any more."""
        now = time.monotonic()
        is_idle = not self._places.tiers[worker]
        taken = self._take_in_turn(worker, now)
        for queued in taken:
            queued.request.model.metrics.queue_tokens.value -= queued.cost
        # An idle worker tries what it gets first, so that estimates made under load are renewed.
        tried = taken[0].request if taken and is_idle else None
        for queued in taken:
            request = queued.request
            if not request.abandoned and request is not tried and self._admission.is_hopeless(queued, now):
                self._give_up(request)
        hopeful = [queued for queued in taken if not queued.request.abandoned]
        for queued in taken:
            if queued.request.abandoned:
                self._reservations.release(worker, queued)
                self._places.give_back(worker, queued)
        return hopeful

    def _take_in_turn(self, worker: int, now: float) -> list[QueuedSentence]:
        """Take sentences for the tier whose turn it is, and for lighter ones: others would hold these up."""
        rooms, running, turns = self._places.rooms(worker), self._places.tiers[worker], self.turns[worker]
        tiers = {*running, *rooms}
        turn = turns.begin(tiers or {0})
        taken: list[QueuedSentence] = []
        for tier, room in rooms.items():
            if tier > turn:
                break
            if not self._is_worth_joining(worker, tier, room, now):
                continue
            gate = Gate(self._reservations, self._places, worker, tier=tier, room=room)
            joining = self._take_some(worker, tier, room, gate, now)
            taken += joining
            self._has_refused |= gate.has_refused
            if gate.lacking:
                self._ask_for_memory(gate.lacking)
            if not (joining or tier in running or gate.lacks_memory_of_all):
                # What waits in it is for other workers, so it has no turn here.
                tiers.remove(tier)
                turn = turns.begin(tiers or {0})
        return taken

    def _take_some(self, worker: int, tier: int, room: Room, gate: Gate, now: float) -> list[QueuedSentence]:
        """Take the share of a worker that begins together with others, if nothing is left to wait, or those in turn."""
        max_source_tokens = self._settings.max_join_source_tokens
        if self._places.yields_until[tier] > now:
            max_source_tokens //= _JOINS_OF_YIELDING
        beginning, dealt = self._places.beginning(worker), list[QueuedSentence]()
        if beginning > 1 and self._queue.count <= beginning * room.places:
            dealt = self._queue.deal(beginning, gate, max_source_tokens=max_source_tokens, now=now)
        # If all of its share waits for memory, others may not have been told of what is left to them.
        sweep = self._sweeps[worker][tier]
        return dealt or self._queue.take(sweep, gate, max_source_tokens=max_source_tokens, now=now)

    def _is_worth_joining(self, worker: int, tier: int, room: Room, now: float) -> bool:
        """Return whether the sentences of a tier have waited for as long as their joining holds up those that run.

        Each time that sentences join a batch, those in it stop for an encoder run, of which a part takes as long for
        many as for one. Whoever waits until the costs are equal never loses more than twice what could be had by
        knowing who comes when: the ski-rental problem (Karlin et al. 1988, "Competitive snoopy caching", section 1).
        """
        costs = self._places.running[worker][tier] * self._joining_costs[worker].seconds
        if not costs:
            return True
        waited, sentences = self._queue.waited(room.callers, now)
        if waited >= costs:
            return True
        self.joins_at[worker] = min(self.joins_at[worker], now + (costs - waited) / sentences)
        return False

    def record_joining(self, worker: int, source_tokens: int, seconds: float) -> None:
        """Measure how long the sentences of a worker had to stop for others that joined."""
        self._joining_costs[worker].record(source_tokens, seconds)

    def _ask_for_memory(self, queued: QueuedSentence) -> None:
        """Let workers give back memory that they keep for sentences to come, if that makes room for one that waits."""
        trimmable = self._reservations.trimmable(queued)
        if trimmable - self._trimming:
            self._trimming |= trimmable
            self._woken |= trimmable
            self._tell_workers()

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
        for queued in self._queue.remove(request.sentences):
            request.model.metrics.queue_tokens.value -= queued.cost

    def report(
        self, worker: int, *, held: Sequence[Mapping[CallerId, Held]], uses: Mapping[BatchKey, BatchUse]
    ) -> None:
        """Take what a worker decodes: what its callers have by tier, and its batches, empty ones included."""
        # Changed by this worker only.
        if held == self._places.reported[worker] and uses == self._reservations.reported[worker]:
            return
        with self._lock:
            self._places.report(worker, held)
            if uses != self._reservations.reported[worker]:
                self._reservations.report(worker, uses)
                if self._has_refused:
                    self._has_refused = False
                    self._tell_workers()

    def record(self, worker: int, done: Sequence[DoneSentence], *, seconds: float) -> None:
        """Measure the work that a worker has done and reported; see `Admission.record`."""
        with self._lock:
            self._admission.record(worker, done, seconds=seconds)

    def stop(self) -> None:
        """Accept no requests and give out no sentences any more."""
        with self._lock:
            self._stopped = True
            self._tell_workers()


def _count_started(sentences: Iterable[QueuedSentence]) -> None:
    """Count the sentences that a worker has taken, and requests whose first they are as begun."""
    now = time.monotonic()
    for queued in sentences:
        metrics = queued.request.model.metrics
        metrics.queue_duration_seconds.observe(now - queued.queued_at)
        if not queued.request.started:
            queued.request.started = True
            metrics.requests_waiting.value -= 1
            metrics.requests_running.value += 1


def _max_cache_bytes(settings: EngineSettings) -> int:
    return settings.max_cache_bytes or memory_limit() // _MEMORY_SHARE
