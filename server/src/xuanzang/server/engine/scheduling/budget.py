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
    """Memory of one batch for keys and values."""

    sentences: int = 0
    needed: int = 0
    """Bytes that the sentences take at most until their ends."""
    held: int = 0
    """Bytes held at present; more than needed after sentences have left, less before they have grown."""

    @property
    def reserved(self) -> int:
        """Bytes that nothing else may take."""
        return max(self.needed, self.held)


_UNUSED = BatchUse()


class Budget:
    """Memory and workers that are taken. Not thread-safe: the scheduler holds its lock."""

    def __init__(self, *, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.lacking: dict[LoadedModel | None, QueuedSentence] = {}
        """Sentence that waits for memory, and goes before others: of a model's own by model, of that of all by None."""
        self._uses: dict[BatchKey, BatchUse] = {}
        self._reserved: Counter[LoadedModel] = Counter()

    def copy(self) -> Budget:
        """Return a copy for trying a decision."""
        trial = Budget(max_bytes=self.max_bytes)
        trial.lacking, trial._uses, trial._reserved = dict(self.lacking), dict(self._uses), self._reserved.copy()
        return trial

    def require_possible(self, sentences: Iterable[QueuedSentence]) -> None:
        """Raise MemoryLimitError for a sentence that would not fit into an empty server."""
        largest = max(sentences, key=lambda queued: queued.cache_bytes)
        model, needed = largest.request.model, largest.cache_bytes
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
        serving = self._serving(model) if limit else set()
        return limit is None or worker in serving or len(serving) < limit

    def take(self, worker: int, tier: int, queued: QueuedSentence) -> bool:
        """Reserve what a sentence needs that joins a batch, or let it wait for memory; return whether it joins."""
        model = queued.request.model
        if any(self.lacking.get(whose, queued) is not queued for whose in (None, model)):
            return False
        key = BatchKey(worker, model, tier, queued.shape)
        use = self._uses.get(key, _UNUSED)
        more = max(0, use.needed + queued.cache_bytes - use.reserved)
        whose = None
        # A lone sentence may have all: there may be less than at its admission.
        if not self._reserved or self._reserved.total() + more <= self.max_bytes:
            limit = model.max_cache_bytes
            if limit is None or self._reserved[model] + more <= limit:
                self._replace(key, BatchUse(use.sentences + 1, use.needed + queued.cache_bytes, use.held))
                self.forget([queued])
                return True
            whose = model
        self.lacking[whose] = queued
        return False

    def release(self, worker: int, queued: QueuedSentence) -> None:
        """Release the reservation of a sentence that has left."""
        key = BatchKey(worker, queued.request.model, queued.tier, queued.shape)
        use = self._uses[key]
        self._replace(key, BatchUse(use.sentences - 1, use.needed - queued.cache_bytes, use.held))

    def forget(self, sentences: Iterable[QueuedSentence]) -> None:
        """Let sentences that are given up wait for memory no longer."""
        if self.lacking:
            gone = set(sentences)
            self.lacking = {whose: queued for whose, queued in self.lacking.items() if queued not in gone}

    def hold(self, worker: int, model: LoadedModel, tier: int, held: Mapping[BatchShape, int]) -> None:
        """Take over the bytes that a worker holds for the batches of a model, empty ones included."""
        before = {key for key in self._uses if key[:3] == (worker, model, tier)}
        for key in before | {BatchKey(worker, model, tier, shape) for shape in held}:
            self._replace(key, self._uses.get(key, _UNUSED)._replace(held=held.get(key.shape, 0)))

    def trimmable(self) -> set[int]:
        """Return the workers that hold more than they need, if giving it back would let a sentence go on that waits."""
        needed: Counter[LoadedModel] = Counter()
        for key, use in self._uses.items() if self.lacking else ():
            needed[key.model] += use.needed
        for queued in self.lacking.values():
            model, limit = queued.request.model, queued.request.model.max_cache_bytes
            fits = needed.total() + queued.cache_bytes <= self.max_bytes
            if fits and (limit is None or needed[model] + queued.cache_bytes <= limit):
                return {key.worker for key, use in self._uses.items() if use.held > use.needed}
        return set()

    def report(self, model: LoadedModel) -> None:
        """Set the metrics of a model."""
        model.metrics.cache_reserved_bytes.value = self._reserved[model]
        model.metrics.model_workers.value = len(self._serving(model))

    def _replace(self, key: BatchKey, use: BatchUse) -> None:
        self._reserved[key.model] += use.reserved - self._uses.get(key, _UNUSED).reserved
        self._uses[key] = use
        if use == _UNUSED:
            del self._uses[key]
        if not self._reserved[key.model]:
            # An unloaded model must not be kept.
            del self._reserved[key.model]

    def _serving(self, model: LoadedModel) -> set[int]:
        return {key.worker for key, use in self._uses.items() if use.sentences and key.model is model}
