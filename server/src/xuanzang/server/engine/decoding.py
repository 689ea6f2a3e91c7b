"""A batch being decoded: sentences come in, step by step, and leave when they are done."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.cache import Cache
from xuanzang.server.engine.runtime import Runtime, value
from xuanzang.server.engine.search import BeamSearch, SearchOptions, TargetHypothesis

__all__ = ["Decoder", "SearchOptions", "Sentence", "TargetHypothesis"]


@dataclass(slots=True, eq=False, kw_only=True)
class Sentence:
    """A sentence to decode; equal only to itself."""

    source_ids: list[int]
    """End token included."""
    options: SearchOptions


class Decoder:
    """Sentences that are decoded together. Belongs to one thread."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._sentences: list[Sentence | None] = []
        """One per row of the batch; None where the sentence has left and the row is not yet taken out."""
        self._search: BeamSearch
        self._cache: Cache

    def __len__(self) -> int:
        """Return the number of sentences that are still being decoded."""
        return sum(sentence is not None for sentence in self._sentences)

    def admit(self, sentences: Sequence[Sentence]) -> None:
        """Encode sentences and start their search.

        Args:
            sentences: At least one.

        Raises:
            ValueError: Others are still being decoded.
        """
        if len(self):
            raise ValueError("sentences are admitted only to an empty decoder")
        ids = self._runtime.special_ids
        options = [sentence.options for sentence in sentences]
        self._search = BeamSearch(options, start_id=ids.decoder_start_id, eos_id=ids.eos_id)
        memory = self._runtime.encode(*_pad([sentence.source_ids for sentence in sentences], ids.source_pad_id))
        batch, beam = self._search.token_ids.shape
        self._cache = Cache(memory, self._runtime.empty_past(batch), batch=batch, beam=beam)
        self._sentences = list(sentences)

    def step(self) -> list[tuple[Sentence, list[TargetHypothesis]]]:
        """Extend every hypothesis by one token.

        Returns:
            The sentences that are done, each with its hypotheses, best first.
        """
        search = self._search
        feed = self._cache.inputs(search.parents)
        feed |= {"token_ids": value(search.token_ids), "positions": value(search.positions)}
        candidates, past = self._runtime.step(feed | {"scores": value(search.scores)})
        self._cache.grow(past)
        finished = []
        for row, hypotheses in search.advance(candidates):
            sentence = self._sentences[row]
            if sentence is not None:
                finished.append((sentence, hypotheses))
                self._sentences[row] = None
        self._compact()
        return finished

    def discard(self, sentences: Collection[Sentence]) -> None:
        """Give up sentences; the others go on."""
        unwanted = set(sentences)
        self._sentences = [None if sentence in unwanted else sentence for sentence in self._sentences]
        self._compact()

    def _compact(self) -> None:
        """Take the rows of sentences that have left out of the batch, once they are half of it.

        Copying the cache of those that stay costs about as much as a few steps; at half, a batch is copied a handful of
        times over its life, and no row computes for nothing for long.
        """
        rows = np.array([row for row, sentence in enumerate(self._sentences) if sentence is not None], dtype=np.int64)
        if 0 < len(rows) <= len(self._sentences) // 2:
            self._search.select(rows)
            self._cache.select(rows)
            self._sentences = [self._sentences[row] for row in rows]


def _pad(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return ids [batch, source] and lengths [batch]."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    ids = np.full((len(rows), lengths.max()), pad_id, dtype=np.int64)
    for padded, row in zip(ids, rows, strict=True):
        padded[: len(row)] = row
    return ids, lengths
