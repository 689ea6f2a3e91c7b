"""Reservations of the running sentences: workers of each model, and memory for keys and values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from xuanzang.server.engine.decoding.decoder import BatchShape
from xuanzang.server.engine.errors import MemoryLimitError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.call import FlowKey
from xuanzang.server.engine.scheduling.places import Places, Room
from xuanzang.server.engine.scheduling.request import QueuedSentence

Lack = Literal["model", "server"]
"""Whose memory is too short for a sentence: what its model may take, or what all models together may."""


class BatchUse(NamedTuple):
    """Use of one worker for the sentences of one model and shape."""

    sentences: int
    needed: int
    """Bytes for keys and values that the sentences take at most until their ends."""
    held: int
    """Bytes held at present; more than needed after sentences have left, less before they have grown."""

    @property
    def reserved(self) -> int:
        """Bytes that nothing else may take."""
        return max(self.needed, self.held)


class BatchKey(NamedTuple):
    """The sentences that one worker decodes together."""

    model: LoadedModel
    tier: int
    shape: BatchShape

    @classmethod
    def of(cls, queued: QueuedSentence) -> BatchKey:
        """Return the batch that a sentence is taken for."""
        return cls(queued.request.model, queued.tier, queued.shape)


_UNUSED = BatchUse(0, 0, 0)
# Of the memory for keys and values a tier may have what leaves as much to lighter ones; see `TIERS`.
_MEMORY_SHARES = (1.0, 0.9375, 0.875, 0.75)


class Reservations:
    """Memory and workers that are taken. Not thread-safe: the scheduler holds its lock."""

    def __init__(self, *, workers: int, max_cache_bytes: int) -> None:
        self.max_cache_bytes = max_cache_bytes
        self.reported: list[dict[BatchKey, BatchUse]] = [{} for _ in range(workers)]
        """What each worker uses, as it reported last; it may look at it without the lock."""
        self._reserved: Counter[LoadedModel] = Counter()
        self._total = 0

    def require_possible(self, sentences: Iterable[QueuedSentence]) -> None:
        """Raise MemoryLimitError for a sentence that would not fit into an empty server."""
        largest, *others = sentences
        for queued in others:
            if queued.cache_bytes > largest.cache_bytes:
                largest = queued
        model, needed = largest.request.model, largest.cache_bytes
        limit = model.max_cache_bytes
        who, setting = f"model {model.name}/{model.version}", "--model-memory-mb"
        if limit is None or self.max_cache_bytes < limit:
            limit, who, setting = self.max_cache_bytes, "the server", "--max-cache-mb"
        if needed > limit:
            raise MemoryLimitError(
                f"a sentence may need {needed} bytes for keys and values, and {who} may use {limit} ({setting}); "
                "a smaller beam_size or max_target_length needs less"
            )

    def may_serve(self, worker: int, model: LoadedModel) -> bool:
        """Return whether a worker may decode with a model now."""
        limit = model.limits.workers
        serving = self._serving(model) if limit else set()
        return limit is None or worker in serving or len(serving) < limit

    def reserve(self, worker: int, queued: QueuedSentence) -> Lack | None:
        """Count a sentence that a worker takes, until its next report; return whose memory is too short instead."""
        model, key = queued.request.model, BatchKey.of(queued)
        use = self.reported[worker].get(key, _UNUSED)
        more = max(0, use.needed + queued.cache_bytes - use.reserved)
        # One that is alone may have all.
        if self._total and self._total + more > self.max_cache_bytes * _MEMORY_SHARES[queued.tier]:
            return "server"
        limit = model.max_cache_bytes
        if limit is not None and self._reserved[model] + more > limit:
            return "model"
        self._replace(worker, {key: BatchUse(use.sentences + 1, use.needed + queued.cache_bytes, use.held)})
        return None

    def release(self, worker: int, queued: QueuedSentence) -> None:
        """Take back what was reserved for a sentence that the worker does not get after all."""
        key = BatchKey.of(queued)
        use = self.reported[worker][key]
        self._replace(worker, {key: BatchUse(use.sentences - 1, use.needed - queued.cache_bytes, use.held)})

    def report(self, worker: int, uses: Mapping[BatchKey, BatchUse]) -> None:
        """Take over what a worker uses: its batches, empty ones that hold memory included."""
        self._replace(worker, dict.fromkeys(self.reported[worker], _UNUSED) | dict(uses))

    def trimmable(self, queued: QueuedSentence) -> set[int]:
        """Return the workers that hold more than they need, if giving it back would make room for a sentence."""
        model, limit = queued.request.model, queued.request.model.max_cache_bytes
        needed: Counter[LoadedModel] = Counter()
        for uses in self.reported:
            for key, use in uses.items():
                needed[key.model] += use.needed
        fits = needed.total() + queued.cache_bytes <= self.max_cache_bytes
        if not fits or (limit is not None and needed[model] + queued.cache_bytes > limit):
            return set()
        return {
            worker for worker, uses in enumerate(self.reported) if any(use.held > use.needed for use in uses.values())
        }

    def _replace(self, worker: int, changes: dict[BatchKey, BatchUse]) -> None:
        uses = self.reported[worker]
        for key, use in changes.items():
            before = uses.get(key, _UNUSED)
            if use == before:
                continue
            more = use.reserved - before.reserved
            self._reserved[key.model] += more
            self._total += more
            uses[key] = use
            if use == _UNUSED:
                del uses[key]
            self._publish(key.model)

    def _publish(self, model: LoadedModel) -> None:
        model.metrics.cache_reserved_bytes.value = self._reserved[model]
        model.metrics.model_workers.value = len(self._serving(model))
        if not self._reserved[model]:
            # An unloaded model must not be kept.
            del self._reserved[model]

    def _serving(self, model: LoadedModel) -> set[int]:
        serving = set()
        for worker, uses in enumerate(self.reported):
            for key, use in uses.items():
                if use.sentences and key.model is model:
                    serving.add(worker)
        return serving


class Gate:
    """Choice of waiting sentences for one worker's batches of a tier; lasts for one look at the queue.

    A sentence that must wait for memory closes the gate for others, which would take the memory first.
    """

    def __init__(self, reservations: Reservations, places: Places, worker: int, *, tier: int, room: Room) -> None:
        self._reservations, self._places = reservations, places
        self._worker, self._tier = worker, tier
        self._left, self._left_of = room.places, dict(room.callers)
        self._closed: set[LoadedModel | None] = set()
        self.lacks_memory_of_all = False
        """True if a sentence waits for memory that any other would take."""
        self.lacking: QueuedSentence | None = None
        """First sentence that found too little memory."""
        self.has_refused = False
        """True if a sentence waits for what other sentences have."""

    def is_open(self, key: FlowKey) -> bool:
        """Return whether the sentences of a flow may be tried."""
        is_full = self.lacks_memory_of_all or self._left <= 0 or self._left_of.get(key.caller, 0) <= 0
        if is_full or key.limited in self._closed:
            return False
        may_serve = key.limited is None or self._reservations.may_serve(self._worker, key.limited)
        self.has_refused |= not may_serve
        return may_serve

    def admits(self, queued: QueuedSentence) -> bool:
        """Reserve what a sentence needs, or close the gate for it and those that wait for the same."""
        queued.tier = self._tier
        lack = self._reservations.reserve(self._worker, queued)
        if lack is None:
            self._places.take(self._worker, queued)
            self._left -= queued.places
            self._left_of[queued.request.flow.caller] -= queued.places
            return True
        self.lacking, self.has_refused = self.lacking or queued, True
        self.lacks_memory_of_all |= lack == "server"
        self._closed.add(queued.request.model)
        return False


def uses_of(
    model: LoadedModel, tier: int, running: Iterable[QueuedSentence], held: Mapping[BatchShape, int]
) -> dict[BatchKey, BatchUse]:
    """Return what a worker uses of one model for a tier, batch by batch, empty ones that hold memory included."""
    needed: dict[BatchShape, list[int]] = {shape: [] for shape, size in held.items() if size}
    for queued in running:
        needed.setdefault(queued.shape, []).append(queued.cache_bytes)
    return {
        BatchKey(model, tier, shape): BatchUse(len(each), sum(each), held.get(shape, 0))
        for shape, each in needed.items()
    }
