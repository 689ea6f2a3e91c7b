"""The state of the scheduler: the complete input of a decision, in one value.

Sentences of a batch wait for each other's steps, so a caller with many makes all steps long. While no caller asks for
more than its share, all sentences are in one batch of each worker, the *common* one: large batches are what makes a
server fast. While one does, all others have separate *light* batches, and most of the time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xuanzang.server.engine.scheduling.budget import Budget
from xuanzang.server.engine.scheduling.forecast import Forecast
from xuanzang.server.engine.scheduling.queue import FairQueue
from xuanzang.server.engine.scheduling.request import QueuedSentence
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import CallerId

COMMON, LIGHT = 0, 1
TIERS = (COMMON, LIGHT)
"""Numbers of the tiers, whose sentences are decoded in batches of their own."""
# Light callers have at least the time of this number: a lone one beside many heavy ones would wait for long.
_MIN_LIGHT_CALLERS = 8.0
# A caller takes more than its share if it asks for this multiple of the places of the caller with the fewest, and
# for this number of places of each worker: fewer make no step long.
_MAX_TIMES = 4
_MAX_PLACES = 4
# Weight of the last encoder run in the mean time, and the maximum ratio of a run to the mean that counts: a run that
# the system interrupted says little.
_RUN_WEIGHT = 0.02
_MAX_RUN_RATIO = 3.0


@dataclass(slots=True)
class _Level:
    """Callers that ask for the same number of places."""

    keys: dict[str, None] = field(default_factory=dict)
    waiting: int = 0
    """Those of the places that their waiting sentences will take."""


class Demand:
    """Places that some callers ask for, and the callers that ask for more than their share of them.

    Changes take a time that grows with the different numbers of places, not with the callers.
    """

    def __init__(self, unnoticed: int) -> None:
        """Begin with nothing; no caller takes too much with a number of `unnoticed` places."""
        self.places: dict[str, int] = {}
        self.limit = unnoticed
        """Places that a caller may ask for."""
        self.heavy = 0
        """Number of callers that ask for more."""
        self.heavy_waiting = 0
        """Places that their waiting sentences will take."""
        self._unnoticed = unnoticed
        self._levels: dict[int, _Level] = {}
        self._waiting: dict[str, int] = {}

    def add(self, key: str, places: int) -> None:
        """Ask for more places, or for less than 0."""
        levels, before, waiting = self._levels, self.places.pop(key, 0), self._waiting.get(key, 0)
        if before:
            level = levels[before]
            del level.keys[key]
            level.waiting -= waiting
            if not level.keys:
                del levels[before]
        if after := before + places:
            self.places[key] = after
            level = levels.get(after) or levels.setdefault(after, _Level())
            level.keys[key] = None
            level.waiting += waiting
        self.limit = max(self._unnoticed, _MAX_TIMES * min(levels, default=0))
        self.heavy = self.heavy_waiting = 0
        for count, level in levels.items():
            if count > self.limit:
                self.heavy += len(level.keys)
                self.heavy_waiting += level.waiting

    def wait(self, key: str, places: int) -> None:
        """Take note that sentences wait which will take places, or less than 0 if they wait no longer."""
        if waiting := self._waiting.pop(key, 0) + places:
            self._waiting[key] = waiting
        if level := self._levels.get(self.places.get(key, 0)):
            level.waiting += places
            if self.exceeds(key):
                self.heavy_waiting += places

    def heavy_keys(self) -> Iterator[str]:
        """Yield the callers that ask for more than their share."""
        for count, level in self._levels.items():
            if count > self.limit:
                yield from level.keys

    def exceeds(self, key: str) -> bool:
        """Return whether one of them asks for more than its share."""
        return self.places.get(key, 0) > self.limit


class Callers:
    """Callers with requests that are not closed: the places that they ask for, and the tier that decodes them."""

    def __init__(self, *, workers: int) -> None:
        self.is_split = False
        """True if somebody takes more than its share, so that others have batches of their own."""
        self.light_weight = _MIN_LIGHT_CALLERS
        """Time of light batches for each second of common ones, once callers are split."""
        self._unnoticed = _MAX_PLACES * workers
        self._shares = Demand(self._unnoticed)
        self._names: dict[str, Demand] = {}
        self.divided: dict[str, Demand] = {}
        """Names of the shares where a name takes more than its part."""

    def add(self, caller: CallerId, places: int) -> None:
        """Take note that a caller asks for places, or for less than 0 if it has them no longer."""
        share, name = caller
        names = self._names.get(share) or self._names.setdefault(share, Demand(self._unnoticed))
        names.add(name, places)
        if names.heavy:
            self.divided[share] = names
        else:
            self.divided.pop(share, None)
        if not names.places:
            del self._names[share]
        self._shares.add(share, places)
        self.is_split = bool(self._shares.heavy or self.divided)
        if self.is_split:
            self._weigh()

    def wait(self, caller: CallerId, places: int) -> None:
        """Take note that a caller's sentences wait which will take places, or less than 0 if they wait no longer."""
        self._shares.wait(caller.share, places)
        if names := self._names.get(caller.share):
            names.wait(caller.name, places)

    @property
    def heavy_waiting(self) -> int:
        """Places that waiting sentences will take whose callers ask for more than their share."""
        return self._shares.heavy_waiting + sum([names.heavy_waiting for names in self._divided()])

    def _divided(self) -> list[Demand]:
        return [names for share, names in self.divided.items() if not self._shares.exceeds(share)]

    def _weigh(self) -> None:
        """Give every caller the same part of the time: shares, or the names of one that some of them divide."""
        divided = self._divided()
        callers = len(self._shares.places) + sum([len(names.places) - 1 for names in divided])
        heavy = self._shares.heavy + sum([names.heavy for names in divided])
        self.light_weight = max(_MIN_LIGHT_CALLERS, callers - heavy) / heavy

    def tier_of(self, caller: CallerId) -> int:
        """Return the tier of a caller's next sentence."""
        if not self.is_split or self._shares.exceeds(caller.share):
            return COMMON
        names = self.divided.get(caller.share)
        return COMMON if names and names.exceeds(caller.name) else LIGHT

    def members(self, tier: int, share: str | None = None) -> Collection[str] | None:
        """Return the shares, or the names of one, that may have sentences of a tier; None for all of them."""
        if not self.is_split:
            return None if tier == COMMON else ()
        if share is None:
            return {*self._shares.heavy_keys(), *self.divided} if tier == COMMON else None
        if self._shares.exceeds(share):
            return None if tier == COMMON else ()
        if tier == LIGHT:
            return None
        names = self.divided.get(share)
        return [*names.heavy_keys()] if names else ()


@dataclass(slots=True, kw_only=True)
class TierState:
    """Sentences of one tier in one worker."""

    rows: int = 0
    """Places of its sentences."""
    tokens: int = 0
    """Predicted tokens of its sentences."""
    time: float = 0.0
    """Seconds that its steps took, divided by its weight: the tier with the least has the next turn."""

    def add(self, queued: QueuedSentence, sign: int) -> None:
        """Count a sentence that joins, or leaves if the sign is -1."""
        self.rows += sign * queued.places
        self.tokens += sign * queued.cost


@dataclass(slots=True, kw_only=True)
class WorkerState:
    """A worker as the scheduler knows it."""

    tiers: tuple[TierState, TierState] = field(default_factory=lambda: (TierState(), TierState()))
    joining_seconds: float = 0.0
    """Mean time of recent encoder runs, which its sentences lose each time that others join; 0 before the first."""
    encodes_long: bool = False
    """True during an encoder run of long sentences."""

    @property
    def is_idle(self) -> bool:
        """True if it has no sentences."""
        return not (self.tiers[COMMON].rows or self.tiers[LIGHT].rows)

    def record_joining(self, seconds: float) -> None:
        """Take note of an encoder run that has ended."""
        self.encodes_long = False
        mean = self.joining_seconds or seconds
        self.joining_seconds = mean + _RUN_WEIGHT * (min(seconds, _MAX_RUN_RATIO * mean) - mean)

    def charge(self, tier: int, seconds: float, light_weight: float) -> None:
        """Count time that was spent on a tier; one without sentences gains no claim to it.

        Source: start-time fair queueing, Goyal et al. 1996.
        """
        spent, other = self.tiers[tier], self.tiers[1 - tier]
        start = spent.time
        spent.time += seconds / (light_weight if tier == LIGHT else 1.0)
        if not other.rows:
            # When it comes back it is behind the present step, so it goes first.
            other.time = max(other.time, start)


class State:
    """The input of a decision. Not thread-safe: the scheduler holds its lock."""

    def __init__(self, *, workers: int, settings: EngineSettings, max_cache_bytes: int) -> None:
        """Make the state of workers that have decoded nothing yet.

        Args:
            workers: Number of workers.
            settings: Limits on places, on joining sentences, and on the queue.
            max_cache_bytes: Bytes for keys and values, all workers together.
        """
        self.max_places, self.max_join_tokens = settings.max_batch_sentences, settings.max_join_source_tokens
        self.max_queue_tokens = settings.max_queue_tokens
        self.callers = Callers(workers=workers)
        self.queue = FairQueue(self.callers.wait)
        self.budget = Budget(max_cache_bytes)
        self.forecast = Forecast()
        self.workers = [WorkerState() for _ in range(workers)]
        self.running = 0
        """Sentences in the batches of all workers."""

    def join(self, worker: int, joins: Mapping[int, Sequence[QueuedSentence]], budget: Budget) -> None:
        """Let waiting sentences join the batches of some tiers, with the memory that was decided."""
        self.budget = budget
        for tier, sentences in joins.items():
            for queued in self.queue.remove(sentences):
                queued.tier = tier
                self.running += 1
                self.workers[worker].tiers[tier].add(queued, 1)
                self.workers[worker].encodes_long |= queued.is_long
                self.queue.charge(queued.request.flow.caller, queued.cost)

    def leave(self, worker: int, sentences: Iterable[QueuedSentence]) -> None:
        """Take note that sentences have left their batches; their callers pay for the tokens that they took."""
        for queued in sentences:
            tier = self.workers[worker].tiers[queued.tier]
            self.forecast.record(
                queued.target_tokens,
                queued.steps,
                queued.finished_at - queued.taken_at,
                rows=tier.rows,
                is_whole=queued.is_whole,
            )
            self.queue.charge(queued.request.flow.caller, queued.worked - queued.cost)
            tier.add(queued, -1)
            self.running -= 1
            self.budget.release(worker, queued)

    def others(self, worker: int) -> list[WorkerState]:
        """Return all workers but one."""
        return self.workers[:worker] + self.workers[worker + 1 :]

    def rows(self, tier: int) -> int:
        """Return the places that the sentences of a tier take in all workers."""
        return sum([each.tiers[tier].rows for each in self.workers])

    def waiting(self, tier: int) -> int:
        """Return the places that waiting sentences of a tier will take."""
        if not self.callers.is_split:
            return self.queue.places if tier == COMMON else 0
        heavy = self.callers.heavy_waiting
        return heavy if tier == COMMON else self.queue.places - heavy

    @property
    def is_idle(self) -> bool:
        """True if no sentence waits or is decoded."""
        return not (self.queue.count or self.running)
