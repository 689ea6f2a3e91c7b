"""The memory budget: bytes for keys and values that sentences may take, and workers that a model may have.

Memory goes to whoever came first: a sentence that finds too little is the next to get some, and no other joins before
it, however small. So one that needs nearly all of it waits only for running ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from xuanzang.server.engine.decoding.decoder import BatchShape
from xuanzang.server.engine.errors import MemoryLimitError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.request import QueuedSentence


class BatchKey(NamedTuple):
    """The sentences that one worker decodes together."""

    worker: int
    model: LoadedModel
    tier: int
    shape: BatchShape


class BatchUse(NamedTuple):
    """Memory of one batch for keys and values; the greater of both is reserved."""

    needed: int = 0
    """Bytes that the sentences take at most until their ends; 0 without sentences."""
    held: int = 0
    """Bytes held at present; more than needed after sentences have left, less before they have grown."""


_UNUSED = BatchUse()


class Budget:
    """Memory and workers that are taken. Not thread-safe: the scheduler holds its lock."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.lacking: dict[LoadedModel | None, QueuedSentence] = {}
        """Sentence that waits for memory, and goes before others: of a model's own by model, of that of all by None."""
        self._uses: dict[BatchKey, BatchUse] = {}
        self._reserved: Counter[LoadedModel | None] = Counter()
        """Bytes by model; None: of all."""

    def copy(self) -> Budget:
        """Return a copy for a decision."""
        copy = Budget(self.max_bytes)
        copy.lacking, copy._uses, copy._reserved = dict(self.lacking), dict(self._uses), Counter(self._reserved)
        return copy

    def require_possible(self, sentences: Iterable[QueuedSentence]) -> None:
        """Raise MemoryLimitError for a sentence that would not fit into an empty server."""
        for queued in sentences:
            model, needed = queued.request.model, queued.cache_bytes
            limit = model.max_cache_bytes
            who, setting = f"model {model.name}/{model.version}", "--model-memory-mb"
            if limit is None or self.max_bytes < limit:
                limit, who, setting = self.max_bytes, "the server", "--max-cache-mb"
            if needed > limit:
                raise MemoryLimitError(
                    f"a sentence may need {needed} bytes for keys and values, and {who} may use {limit} ({setting}); "
                    "a smaller beam_size or max_target_length needs less"
                )

    def may_serve(self, worker: int, model: LoadedModel) -> bool:
        """Return whether a worker may decode with a model now."""
        limit = model.limits.workers
        serving = {key.worker for key, use in self._uses.items() if use.needed and key.model is model}
        return limit is None or worker in serving or len(serving) < limit

    def serving(self, labels: tuple[str, str]) -> set[int]:
        """Return the workers that decode with models of a name and version."""
        return {key.worker for key, use in self._uses.items() if use.needed and key.model.labels == labels}

    def reserved(self, labels: tuple[str, str]) -> int:
        """Return the bytes that are reserved for models of a name and version."""
        return sum([max(use) for key, use in self._uses.items() if key.model.labels == labels])

    def take(self, worker: int, tier: int, queued: QueuedSentence) -> bool:
        """Reserve the memory of a sentence that joins a batch, or let it wait for some; return whether it joins."""
        model, key = queued.request.model, BatchKey(worker, queued.request.model, tier, queued.shape)
        if self.lacking and any(self.lacking.get(whose, queued) is not queued for whose in (None, model)):
            return False
        needed, held = self._uses.get(key, _UNUSED)
        more = max(needed + queued.cache_bytes, held) - max(needed, held)
        for whose, limit in ((None, self.max_bytes), (model, model.max_cache_bytes)):
            # A lone sentence may have all: there may be less than at its admission.
            if limit is not None and self._reserved[None] and self._reserved[whose] + more > limit:
                self.lacking[whose] = queued
                return False
        self._replace(key, BatchUse(needed + queued.cache_bytes, held))
        self.forget([queued])
        return True

    def release(self, worker: int, queued: QueuedSentence) -> None:
        """Release the reservation of a sentence that has left."""
        key = BatchKey(worker, queued.request.model, queued.tier, queued.shape)
        needed, held = self._uses.get(key, _UNUSED)
        self._replace(key, BatchUse(needed - queued.cache_bytes, held))

    def forget(self, sentences: Iterable[QueuedSentence]) -> None:
        """Let sentences wait for memory no longer."""
        if self.lacking:
            gone = set(sentences)
            self.lacking = {whose: queued for whose, queued in self.lacking.items() if queued not in gone}

    def hold(self, worker: int, model: LoadedModel, tier: int, held: Mapping[BatchShape, int]) -> None:
        """Take over the bytes that a worker holds for the batches of a model, empty ones included."""
        before = [key for key in self._uses if key[:3] == (worker, model, tier)]
        for key in {*before, *(BatchKey(worker, model, tier, shape) for shape in held)}:
            self._replace(key, BatchUse(self._uses.get(key, _UNUSED).needed, held.get(key.shape, 0)))

    def trims(self, worker: int) -> bool:
        """Return whether a worker holds more than it needs while a sentence waits for memory."""
        uses = self._uses.items() if self.lacking else ()
        return any(use.held > use.needed for key, use in uses if key.worker == worker)

    def _replace(self, key: BatchKey, use: BatchUse) -> None:
        more = max(use) - max(self._uses.get(key, _UNUSED))
        self._uses[key] = use
        if use == _UNUSED:
            del self._uses[key]
        for whose in (None, key.model):
            self._reserved[whose] += more
            if not self._reserved[whose]:
                # An unloaded model must not be kept.
                del self._reserved[whose]
