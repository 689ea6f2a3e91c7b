"""Kept answers of searches, and one search for equal sentences in flight.

What a search finds for a sentence depends on the model, the source ids and the options alone, never on what else is in
the batch. So a kept result is the same to the last bit, and equal sentences that wait can share one search.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis

Found = Sequence[TargetHypothesis]
"""Hypotheses of one sentence, best first."""

# Bytes of the objects of an entry in CPython 3.11 to 3.14; a test compares the sum with what an interpreter allocates.
_ENTRY_BYTES = 1000
_HYPOTHESIS_BYTES = 200
_TOKEN_BYTES = 40
_DETAIL_BYTES = 80


class AnswerKey(NamedTuple):
    """All that the answer of a search depends on, and who may have it."""

    scope: str
    """Identity of the caller, or empty if callers share answers."""
    manifest_sha256: str
    """Digest of the model."""
    source_ids: tuple[int, ...]
    options: SearchOptions


class CacheMetrics(Protocol):
    """Receives what happens to the answers."""

    def answers_changed(self, entries: int, size: int) -> None:
        """Take the number of kept answers and their bytes."""

    def answers_evicted(self, entries: int) -> None:
        """Count answers that made room for others."""


@dataclass(slots=True)
class _Entry:
    found: Found
    size: int


class AnswerCache:
    """Answers of searches, the longest unused dropped first. Belongs to the event loop.

    Texts of callers live here in memory, as ids, and nowhere else.
    """

    def __init__(self, max_bytes: int, metrics: CacheMetrics, *, is_shared: bool = False) -> None:
        """Make an empty cache.

        Args:
            max_bytes: Bytes of all entries together, at least 1.
            metrics: Receiver of the sizes.
            is_shared: Whether callers share answers; a caller can then tell by the time of a call whether somebody
                else has asked for a translation of the same sentence.
        """
        self._max_bytes = max_bytes
        self._metrics = metrics
        self._is_shared = is_shared
        self._entries: OrderedDict[AnswerKey, _Entry] = OrderedDict()
        self._size = 0
        self._in_flight: dict[AnswerKey, asyncio.Future[Found | None]] = {}

    def key(self, caller: str, manifest_sha256: str, sentence: Sentence) -> AnswerKey | None:
        """Return the key of a sentence; None if its answer is not to be kept.

        Drawn translations are not kept, nor are searches that are recorded for an explanation, nor those that phrases
        constrain.
        """
        options = sentence.options
        if options.recorder is not None or options.phrases is not None or options.decoding.sampling is not None:
            return None
        scope = "" if self._is_shared else caller
        return AnswerKey(scope, manifest_sha256, tuple(sentence.source_ids), options)

    def get(self, key: AnswerKey) -> Found | None:
        """Return a kept answer, which is then the last to be dropped."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry.found

    def search_in_flight(self, key: AnswerKey) -> asyncio.Future[Found | None] | None:
        """Return the future of a search that somebody is waiting for; its result is None if it is given up."""
        return self._in_flight.get(key)

    def begin(self, key: AnswerKey) -> None:
        """Announce a search, which `end` must follow; of two for one key the first is shared."""
        if key not in self._in_flight:
            self._in_flight[key] = asyncio.get_running_loop().create_future()

    def end(self, key: AnswerKey, found: Found | None) -> None:
        """Share what a search found, and keep it.

        Args:
            key: Key of the sentence.
            found: Hypotheses; None if the search was given up or cut short.
        """
        future = self._in_flight.pop(key, None)
        if future is not None and not future.done():
            future.set_result(found)
        if found is not None:
            self._keep(key, found)

    def drop(self, manifest_sha256: str) -> None:
        """Drop the answers of a model."""
        for key in [key for key in self._entries if key.manifest_sha256 == manifest_sha256]:
            self._size -= self._entries.pop(key).size
        self._metrics.answers_changed(len(self._entries), self._size)

    def _keep(self, key: AnswerKey, found: Found) -> None:
        size = _size_of(key, found)
        if size > self._max_bytes:
            return
        replaced = self._entries.pop(key, None)
        self._size += size - (replaced.size if replaced else 0)
        self._entries[key] = _Entry(found, size)
        evicted = 0
        while self._size > self._max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self._size -= oldest.size
            evicted += 1
        if evicted:
            self._metrics.answers_evicted(evicted)
        self._metrics.answers_changed(len(self._entries), self._size)


def _size_of(key: AnswerKey, found: Found) -> int:
    """Estimate the bytes that an entry takes."""
    size = _ENTRY_BYTES + _TOKEN_BYTES * (len(key.source_ids) + len(key.options.prefix_ids))
    for hypothesis in found:
        size += _HYPOTHESIS_BYTES + _TOKEN_BYTES * len(hypothesis.target_ids)
        if details := hypothesis.details:
            size += _HYPOTHESIS_BYTES + _DETAIL_BYTES * len(details.scores) + _TOKEN_BYTES * len(details.attention)
    return size
