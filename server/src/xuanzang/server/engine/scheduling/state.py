"""The state of the scheduler: the complete input of a decision, in one value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xuanzang.server.engine.scheduling.budget import Budget
from xuanzang.server.engine.scheduling.forecast import Forecast
from xuanzang.server.engine.scheduling.queue import COMMON, LIGHT, FairQueue
from xuanzang.server.engine.scheduling.request import QueuedSentence
from xuanzang.server.engine.settings import EngineSettings

# Weight of the last encoder run in the mean time, and the maximum ratio of a run to the mean that counts: a run that
# the system interrupted says little.
_RUN_WEIGHT = 0.02
_MAX_RUN_RATIO = 3.0


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
        self.queue = FairQueue(workers=workers)
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

    @property
    def is_idle(self) -> bool:
        """True if no sentence waits or is decoded."""
        return not (self.queue.count or self.running)
