"""Sentences that are decoded together: they come and go at any step, each at a position of its own."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np

from xuanzang.server.engine.arrays import Floats, Ints
from xuanzang.server.engine.decoding.beam_search import BeamSearch, Candidates
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis
from xuanzang.server.engine.decoding.logit_edits import no_edits
from xuanzang.server.engine.decoding.shortlist import Choices
from xuanzang.server.engine.runtime.kv_cache import Cache
from xuanzang.server.engine.runtime.page_pool import Value
from xuanzang.server.engine.runtime.sessions import Runtime

# Sentences are encoded together while padding is at most this share of them; longer ones come in the next round.
_PADDED_SHARE = 0.2


class Kind(NamedTuple):
    """What the sentences of a batch have in common.

    Sentences with other beam sizes run in batches of their own: matrix products of 16 or more rows cost the same per
    row, and with 1 row they round differently, so that a greedy search would depend on its neighbours.
    """

    beam_size: int
    candidate_count: int
    """Continuations that the graph returns for each sentence."""
    traced: bool

    @classmethod
    def of(cls, options: SearchOptions) -> Self:
        """Return the kind of batch that a sentence with some options belongs to."""
        wanted = 2 * options.beam_size
        if options.sampling:
            wanted = max(wanted, options.sampling.top_k)
        return cls(options.beam_size, wanted, options.traced or options.coverage_penalty != 0)


class Batch:
    """A running batch of one kind. Belongs to one thread."""

    def __init__(self, runtime: Runtime, kind: Kind) -> None:
        """Start without sentences."""
        ids, dimensions = runtime.special_ids, runtime.dimensions
        self._runtime = runtime
        self._search = BeamSearch(
            kind.beam_size,
            start_id=ids.decoder_start_id,
            eos_id=ids.eos_id,
            traced=dimensions.max_source_length if kind.traced else None,
        )
        self._cache = Cache(runtime.cache_shape, kind.beam_size)
        self._encoder, self._decoder = runtime.new_bindings()
        self._candidate_count = min(kind.candidate_count, dimensions.target_vocab_size)
        self._wanted = np.array([self._candidate_count])
        # Without a shortlist every sentence chooses from all pieces.
        self._choices = (
            Choices(runtime.always_ids(), vocab_size=dimensions.target_vocab_size, least=self._candidate_count)
            if runtime.has_shortlist
            else None
        )
        self._no_edits = no_edits(0, kind.beam_size)
        self._answer = Candidates(*(np.zeros((0, 0), dtype) for dtype in (np.float32, np.int64, np.int64)))
        self._attention: Floats = np.zeros((0, 0, 0), np.float32)
        self._bound: tuple[object, ...] = (None,) * 6
        self._sentences: list[Sentence | None] = []
        """One per row; None for a sentence that has left a place to be taken."""

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self._sentences) - self._sentences.count(None)

    @property
    def cache_bytes(self) -> int:
        """Bytes of keys and values."""
        return self._cache.nbytes

    def admit(self, sentences: Sequence[Sentence]) -> None:
        """Encode sentences and let them join.

        Args:
            sentences: Of the batch's kind.
        """
        ordered = sorted(sentences, key=lambda sentence: len(sentence.source_ids))
        for group in _groups(ordered):
            ids, lengths = _pad([s.source_ids for s in group], self._runtime.special_ids.source_pad_id)
            rows = self._places(len(group))
            inputs, outputs = self._cache.join(rows, lengths, padded=ids.shape[1])
            self._encoder.bind({"source_ids": ids, **inputs}, outputs)
            self._encoder.run()
            self._search.join(rows, [sentence.options for sentence in group])
            if self._choices:
                prefixes = [sentence.options.prefix_ids for sentence in group]
                self._choices.join(rows, self._runtime.suggest(ids), prefixes)
            for row, sentence in zip(rows.tolist(), group, strict=True):
                self._sentences[row] = sentence

    def step(self) -> list[tuple[Sentence, list[TargetHypothesis]]]:
        """Extend every hypothesis by one token.

        Returns:
            The sentences that are done and have left, each with its hypotheses, best first.
        """
        # Here and not when they leave: most places are taken by others at once, and then no array has to move.
        self._close_gaps()
        search, cache = self._search, self._cache
        cache.advance(search.parents)
        self._bind()
        self._decoder.run()
        done = search.advance(self._answer, self._attention)
        return [(self._leave(row), hypotheses) for row, hypotheses in done]

    def discard(self, sentences: Collection[Sentence]) -> None:
        """Give up sentences; the others go on."""
        self._sentences = [None if sentence in sentences else sentence for sentence in self._sentences]

    def partial(self, sentence: Sentence) -> list[TargetHypothesis]:
        """Return the best hypotheses so far; empty before the first step."""
        return self._search.partial(self._sentences.index(sentence))

    def committed(self, sentence: Sentence) -> list[int]:
        """Return the tokens that the best hypothesis is sure to begin with."""
        return self._search.committed(self._sentences.index(sentence))

    def _places(self, count: int) -> Ints:
        """Return rows for new sentences: those that others have left, then new ones."""
        free = [row for row, sentence in enumerate(self._sentences) if sentence is None][:count]
        size = len(self._sentences)
        self._sentences += [None] * (count - len(free))
        return np.array([*free, *range(size, len(self._sentences))], dtype=np.int64)

    def _leave(self, row: int) -> Sentence:
        sentence = self._sentences[row]
        if sentence is None:
            raise RuntimeError("a row without sentence was decoded")
        self._sentences[row] = None
        return sentence

    def _close_gaps(self) -> None:
        """Let the last sentences take the places that others have left."""
        taken = [row for row, sentence in enumerate(self._sentences) if sentence is not None]
        if len(taken) == len(self._sentences):
            return
        order = np.arange(len(taken))
        gaps = [row for row, sentence in enumerate(self._sentences[: len(taken)]) if sentence is None]
        order[gaps] = taken[len(taken) - len(gaps) :]
        self._search.select(order)
        self._cache.select(order)
        if self._choices:
            self._choices.select(order)
        self._sentences = [self._sentences[row] for row in order]

    def _bind(self) -> None:
        """Hand the arrays that are new to the graph."""
        search, cache = self._search, self._cache
        batch, beam = search.token_ids.shape
        shape = (batch, self._candidate_count)
        if self._answer.scores.shape != shape:
            self._answer = Candidates(np.zeros(shape, np.float32), np.zeros(shape, np.int64), np.zeros(shape, np.int64))
            self._no_edits = no_edits(batch, beam)
        if self._attention.shape != (batch, beam, cache.sources):
            self._attention = np.zeros((batch, beam, cache.sources), dtype=np.float32)
        choices = self._choices.inputs() if self._choices else None
        edits = search.edits()
        if edits and self._choices:
            edits = self._choices.placed(edits)
        # Most steps work on the arrays of the step before.
        owners = (search.token_ids, cache.decoder, choices, edits, self._answer, self._attention)
        if all(map(operator.is_, owners, self._bound)):
            return
        self._bound = owners
        inputs: dict[str, Value] = {
            "token_ids": search.token_ids,
            "positions": search.positions,
            "scores": search.scores,
            "candidate_count": self._wanted,
            **(edits or self._no_edits)._asdict(),
            **(choices or {}),
            **cache.decoder.inputs,
        }
        answer = {f"candidate_{name}": array for name, array in self._answer._asdict().items()}
        self._decoder.bind(inputs, {"attention": self._attention, **answer, **cache.decoder.outputs})


def _groups(sentences: Sequence[Sentence]) -> Iterator[list[Sentence]]:
    """Cut sentences, shortest first, into groups with little padding."""
    group: list[Sentence] = []
    tokens = 0
    for sentence in sentences:
        length = len(sentence.source_ids)
        padded = (len(group) + 1) * length
        if group and padded - tokens - length > _PADDED_SHARE * padded:
            yield group
            group, tokens = [], 0
        group.append(sentence)
        tokens += length
    if group:
        yield group


def _pad(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[Ints, Ints]:
    """Return ids [batch, source] and lengths [batch]."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    ids = np.full((len(rows), lengths.max()), pad_id, dtype=np.int64)
    for padded, row in zip(ids, rows, strict=True):
        padded[: len(row)] = row
    return ids, lengths
