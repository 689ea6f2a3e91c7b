"""The memory budget: bytes for keys and values that sentences may take, and workers that a model may have.

Memory goes to whoever came first: a sentence that finds too little is the next to get some, and no other joins before
it, however small. So one that needs nearly all of it waits for those that run, and for nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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
        self._uses: dict[BatchKey, BatchUse] = {}
        self._reserved: Counter[LoadedModel] = Counter()
        self._total = 0
        # First sentence that found too little: of a model's own memory by model, of that of all by None.
        self._lacking: dict[LoadedModel | None, QueuedSentence] = {}

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

    def trial(self, worker: int) -> Trial:
        """Return what is left for sentences that a worker may take."""
        return Trial(
            worker=worker,
            max_bytes=self.max_bytes,
            total=self._total,
            uses=dict(self._uses),
            reserved=Counter(self._reserved),
            lacking=dict(self._lacking),
        )

    def reserve(self, worker: int, queued: QueuedSentence) -> None:
        """Count a sentence that joins a batch."""
        self._lacking = {key: each for key, each in self._lacking.items() if each is not queued}
        self._add(worker, queued, 1)

    def release(self, worker: int, queued: QueuedSentence) -> None:
        """Take back what was reserved for a sentence that has left."""
        self._add(worker, queued, -1)

    def wait(self, queued: QueuedSentence, model: LoadedModel | None) -> None:
        """Let a sentence wait for memory, of its model or of all, unless one that came before it does."""
        first = self._lacking.get(model)
        if first is None or queued.number < first.number:
            self._lacking[model] = queued

    def forget(self, sentences: Iterable[QueuedSentence]) -> bool:
        """Let sentences that are given up wait no longer; return whether any did."""
        gone = set(sentences)
        kept = {key: each for key, each in self._lacking.items() if each not in gone}
        changed = len(kept) < len(self._lacking)
        self._lacking = kept
        return changed

    @property
    def lacking(self) -> list[QueuedSentence]:
        """Sentences that wait for memory, whose turn it is before others."""
        return list(self._lacking.values())

    def hold(self, worker: int, model: LoadedModel, tier: int, held: Mapping[BatchShape, int]) -> None:
        """Take over the bytes that a worker holds for the batches of a model, empty ones included."""
        batches = {key.shape: key for key in self._uses if key[:3] == (worker, model, tier)}
        for shape in batches.keys() | held.keys():
            key = BatchKey(worker, model, tier, shape)
            self._replace(key, self._uses.get(key, _UNUSED)._replace(held=held.get(shape, 0)))

    def trimmable(self) -> set[int]:
        """Return the workers that hold more than they need, if giving it back would let a sentence go on that waits."""
        if not self._lacking:
            return set()
        needed: Counter[LoadedModel] = Counter()
        for key, use in self._uses.items():
            needed[key.model] += use.needed
        for queued in self._lacking.values():
            model, limit = queued.request.model, queued.request.model.max_cache_bytes
            fits = needed.total() + queued.cache_bytes <= self.max_bytes
            if fits and (limit is None or needed[model] + queued.cache_bytes <= limit):
                return {key.worker for key, use in self._uses.items() if use.held > use.needed}
        return set()

    def _add(self, worker: int, queued: QueuedSentence, sign: int) -> None:
        key = BatchKey(worker, queued.request.model, queued.tier, queued.shape)
        use = self._uses.get(key, _UNUSED)
        self._replace(key, BatchUse(use.sentences + sign, use.needed + sign * queued.cache_bytes, use.held))

    def _replace(self, key: BatchKey, use: BatchUse) -> None:
        before = self._uses.get(key, _UNUSED)
        if use == before:
            return
        more = use.reserved - before.reserved
        self._reserved[key.model] += more
        self._total += more
        self._uses[key] = use
        if use == _UNUSED:
            del self._uses[key]
        key.model.metrics.cache_reserved_bytes.value = self._reserved[key.model]
        key.model.metrics.model_workers.value = len(self._serving(key.model))
        if not self._reserved[key.model]:
            # An unloaded model must not be kept.
            del self._reserved[key.model]

    def _serving(self, model: LoadedModel) -> set[int]:
        return {key.worker for key, use in self._uses.items() if use.sentences and key.model is model}


@dataclass(slots=True, kw_only=True)
class Trial:
    """Memory as it will be once the sentences of one decision have joined; the budget does not change."""

    worker: int
    max_bytes: int
    total: int
    uses: dict[BatchKey, BatchUse]
    reserved: Counter[LoadedModel]
    lacking: dict[LoadedModel | None, QueuedSentence]
    refused: list[tuple[QueuedSentence, LoadedModel | None]] = field(default_factory=list)
    """Sentences that found too little, and the model whose memory it is; None for that of all."""

    def takes(self, queued: QueuedSentence, tier: int) -> bool:
        """Return whether there is memory for a sentence, and count it then."""
        model = queued.request.model
        if any(self.lacking.get(whose, queued) is not queued for whose in (None, model)):
            return False
        key = BatchKey(self.worker, model, tier, queued.shape)
        use = self.uses.get(key, _UNUSED)
        more = max(0, use.needed + queued.cache_bytes - use.reserved)
        limit = model.max_cache_bytes
        whose = None
        # One that is alone may have all.
        if not self.total or self.total + more <= self.max_bytes:
            if limit is None or self.reserved[model] + more <= limit:
                self.uses[key] = use._replace(needed=use.needed + queued.cache_bytes)
                self.total += more
                self.reserved[model] += more
                return True
            whose = model
        self.refused.append((queued, whose))
        self.lacking[whose] = queued
        return False

    @property
    def is_closed(self) -> bool:
        """True if a sentence waits for memory that any other would take."""
        return None in self.lacking and bool(self.refused)
