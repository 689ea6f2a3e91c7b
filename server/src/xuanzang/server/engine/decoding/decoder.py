"""Running batches of one model, for one worker; their sentences join and leave at any step."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np

from xuanzang.kernels.decode import NOTHING, ONE_STEP, DecodeSteps, StepLimit
from xuanzang.kernels.graphs import GraphBinding
from xuanzang.server.engine.arrays import Floats, Ints, Order
from xuanzang.server.engine.decoding.beam_search import BeamSearch
from xuanzang.server.engine.decoding.hypotheses import Advance, SearchOptions, Sentence, TargetHypothesis
from xuanzang.server.engine.decoding.logit_edits import LogitEdits, no_edits
from xuanzang.server.engine.decoding.phrase_search import Inspection
from xuanzang.server.engine.decoding.search_state import DEAD_SCORE, Candidates
from xuanzang.server.engine.decoding.shortlist import BatchShortlist, InspectedRows
from xuanzang.server.engine.decoding.token_details import TokenDetailRecorder
from xuanzang.server.engine.runtime.kv_cache import KeyValueCache
from xuanzang.server.engine.runtime.pages import Tensor
from xuanzang.server.engine.runtime.sessions import Sessions
from xuanzang.server.engine.types import DecodingOptions

# An encoder that computes padding gets sentences while it is at most this share of them; longer ones come in the next
# group.
_MAX_PADDED_SHARE = 0.2
# Inputs and outputs of the decoder with a row for each sentence, except the cache's.
_ROWS = (
    *("token_ids", "positions", "scores", *LogitEdits._fields),
    *("attention", *(f"candidate_{name}" for name in Candidates._fields)),
)
# Owners of the arrays that the decoder graph has, before it has any.
_UNBOUND = (None,) * 7


class BatchShape(NamedTuple):
    """Properties that the sentences of a batch have in common.

    Sentences with other beam sizes run in batches of their own: matrix products of 16 or more rows cost the same per
    row, and with 1 row they round differently, so that a greedy search would depend on its neighbours.
    """

    beam_size: int
    candidate_count: int
    """Continuations that the graph returns for each sentence."""
    token_details: bool
    """True if score and attention of every token are recorded."""

    @classmethod
    def of(cls, options: DecodingOptions) -> Self:
        """Return the shape of the batch for sentences with some options."""
        count = 2 * options.beam_size
        if options.sampling:
            count = max(count, options.sampling.top_k)
        detailed = options.token_details or options.quality or options.coverage_penalty != 0
        return cls(options.beam_size, count, detailed)


class Batch:
    """A running batch of one shape. Belongs to one thread."""

    def __init__(self, sessions: Sessions, shape: BatchShape, *, shrinks: bool = False) -> None:
        """Start without sentences; `shrinks`: whether the graphs free memory of intermediate results after each run."""
        functions = sessions.step_functions
        ids, dimensions, beam = sessions.special_ids, sessions.dimensions, shape.beam_size
        self._sessions = sessions
        max_source_length = dimensions.max_source_length
        self._search = BeamSearch(
            beam,
            start_id=ids.decoder_start_id,
            eos_id=ids.eos_id,
            details=TokenDetailRecorder(beam, max_source_length=max_source_length) if shape.token_details else None,
            functions=functions,
        )
        self._cache = KeyValueCache(sessions.cache_shape, beam, functions=functions)
        # Without kernels (float16 has none) attention finds pages by their owners.
        self._may_reorder = sessions.cache_shape.dtype == np.float32
        self._encoder, self._decoder = sessions.new_bindings(shrinks=shrinks)
        self._steps = self._new_steps()
        count = min(shape.candidate_count, dimensions.target_vocab_size)
        self._candidate_count = np.array([count])
        # Without a shortlist every sentence chooses from all pieces.
        self._shortlist = (
            BatchShortlist(sessions.common_pieces(), vocab_size=dimensions.target_vocab_size, min_pieces=count)
            if sessions.has_shortlist
            else None
        )
        self._no_edits = no_edits(0, beam)
        self._candidates = Candidates(*(np.zeros((0, 0), dtype) for dtype in (np.float32, np.int64, np.int64)))
        self._attention: Floats = np.zeros((0, 0, 0), np.float32)
        self._inspected = InspectedRows(sessions, candidate_count=count)
        self._bound: tuple[object, ...] = _UNBOUND
        self._sentences: list[Sentence | None] = []
        """Sentences by batch index; None where one has left and none has joined yet."""

    def __len__(self) -> int:
        return len(self._sentences) - self._sentences.count(None)

    @property
    def cache_bytes(self) -> int:
        """Bytes of keys and values."""
        return self._cache.nbytes

    def admit(self, sentences: Sequence[Sentence]) -> None:
        """Encode sentences and let them join."""
        # Sentences that left need no memory, so `bytes_needed` of the present ones bounds the memory held.
        gaps = [index for index, sentence in enumerate(self._sentences) if sentence is None]
        self._cache.leave(np.array(gaps, dtype=np.int64))
        ordered = sorted(sentences, key=lambda sentence: len(sentence.source_ids))
        for group in [ordered] if self._sessions.skips_padding else _groups(ordered):
            ids, lengths = _pad([s.source_ids for s in group], self._sessions.special_ids.source_pad_id)
            # Batch indices that others have left, then new ones.
            size = len(self._sentences)
            self._sentences += [None] * (len(group) - len(gaps))
            indices = np.array([*gaps[: len(group)], *range(size, len(self._sentences))], dtype=np.int64)
            gaps = gaps[len(group) :]
            padded = 0 if self._sessions.skips_padding else ids.shape[1]
            tensors = self._cache.join(indices, lengths, padded=padded)
            self._encoder.bind({"source_ids": ids, **tensors.inputs}, tensors.outputs)
            self._encoder.run()
            self._search.join(indices, [sentence.options for sentence in group])
            if self._shortlist:
                forced = [sentence.options.forced_ids for sentence in group]
                self._shortlist.join(indices, self._sessions.suggest(ids), forced)
            for index, sentence in zip(indices.tolist(), group, strict=True):
                self._sentences[index] = sentence

    def _new_steps(self) -> DecodeSteps | None:
        """Return the steps that the kernels take; None without kernels."""
        cache, beams, decoder = self._cache, self._search.continue_best, self._decoder
        if not beams or not isinstance(decoder, GraphBinding):
            return None
        rows = (*_ROWS, *cache.rows, *(["choices"] if self._sessions.has_shortlist else []))
        rows = rows if self._may_reorder else ()
        return DecodeSteps(decoder, cache.advance_slots, beams, dead_score=float(DEAD_SCORE), rows=rows)

    def advance(self, limit: StepLimit) -> Advance[Sentence]:
        """Extend every hypothesis by one token, and by more where nothing but the end of sentences can happen."""
        # Here and not when they leave: most indices are taken by others at once, and then no array has to move.
        self._close_gaps()
        search, cache = self._search, self._cache
        cache.advance(search.beams.parents)
        inspection = self._inspected.fit(search.required, self._shortlist)
        has_edits = self._bind(inspection)
        steps = min(limit.steps, search.free_steps)
        if self._steps and steps > 1:
            if self._steps.slots and (slots := cache.slots(search.beams.parents)):
                self._steps.slots.fit(slots)
            later = self._no_edits._asdict() if has_edits else NOTHING
            limit = limit._replace(steps=steps, steps_after_done=limit.steps_after_done if self._may_reorder else 0)
            (steps, done, steps_ago), order = search.advance_by(self._steps, self._candidates, limit, later)
            if order:
                self._reorder(order)
        else:
            self._decoder.run()
            steps = 1
            done = search.advance(
                self._candidates, self._attention, inspection if search.required.indices.size else None
            )
            steps_ago = [0] * len(done)
        return Advance(steps, [(self._leave(index), hypotheses) for index, hypotheses in done], steps_ago)

    def _reorder(self, order: Sequence[int]) -> None:
        """Take note that sentences have changed places: some that are done are behind the others."""
        self._sentences = [self._sentences[index] for index in order]
        self._cache.reorder(Order.of(np.array(order)))
        if self._shortlist:
            self._shortlist.reorder(order)

    def trim(self) -> None:
        """Give back the memory for keys and values that the sentences do not need."""
        self._close_gaps()
        self._cache.trim()
        # The old ones keep the memory that was bound last.
        self._encoder, self._decoder = self._sessions.new_bindings()
        self._steps = self._new_steps()
        self._bound = _UNBOUND

    def discard(self, sentences: Collection[Sentence]) -> None:
        """Give up sentences; the others go on."""
        self._sentences = [None if sentence in sentences else sentence for sentence in self._sentences]

    def partial(self, sentence: Sentence) -> list[TargetHypothesis]:
        """Return the best hypotheses so far; empty before the first step."""
        return self._search.partial(self._sentences.index(sentence))

    def committed(self, sentence: Sentence) -> list[int]:
        """Return the final tokens at the beginning of the best hypothesis."""
        return self._search.committed(self._sentences.index(sentence))

    def _leave(self, index: int) -> Sentence:
        sentence = self._sentences[index]
        if sentence is None:
            raise RuntimeError("a batch index without sentence was decoded")
        self._sentences[index] = None
        return sentence

    def _close_gaps(self) -> None:
        """Move the last sentences to the indices that others have left."""
        if None not in self._sentences:
            return
        taken = [index for index, sentence in enumerate(self._sentences) if sentence is not None]
        kept = np.arange(len(taken))
        gaps = [index for index, sentence in enumerate(self._sentences[: len(taken)]) if sentence is None]
        kept[gaps] = taken[len(taken) - len(gaps) :]
        order = Order.of(kept)
        self._search.select(order)
        self._cache.select(order)
        if self._shortlist:
            self._shortlist.select(order)
        self._sentences = [self._sentences[index] for index in kept.tolist()]

    def _bind(self, inspection: Inspection) -> bool:
        """Bind the arrays that are new to the decoder graph; return whether logits are edited."""
        self._fit_outputs()
        search, cache, shortlist = self._search, self._cache, self._shortlist
        edits = search.edits()
        if edits and shortlist:
            edits = shortlist.translated(edits)
        choices = shortlist.inputs() if shortlist else None
        # Most steps work on the arrays of the step before.
        owners = (search.beams, cache.decoder_tensors, choices, edits, self._candidates, self._attention, inspection)
        if all(map(operator.is_, owners, self._bound)):
            return False
        self._bound = owners
        inputs: dict[str, Tensor] = {
            "token_ids": search.beams.token_ids,
            "positions": search.beams.positions,
            "scores": search.beams.scores,
            "candidate_count": self._candidate_count,
            **(edits or self._no_edits)._asdict(),
            **(choices or {}),
            **self._inspected.inputs,
            **cache.decoder_tensors.inputs,
        }
        candidates = {f"candidate_{name}": array for name, array in self._candidates._asdict().items()}
        outputs = {"attention": self._attention, **candidates, **self._inspected.outputs}
        self._decoder.bind(inputs, {**outputs, **cache.decoder_tensors.outputs})
        return edits is not None

    def _fit_outputs(self) -> None:
        """Replace the arrays of outputs, and of no edits, if they no longer fit the batch."""
        batch, beam = self._search.beams.token_ids.shape
        shape = (batch, int(self._candidate_count[0]))
        if self._candidates.scores.shape != shape:
            dtypes = (np.float32, np.int64, np.int64)
            self._candidates = Candidates(*(np.zeros(shape, dtype) for dtype in dtypes))
            self._no_edits = no_edits(batch, beam)
        if self._attention.shape != (batch, beam, self._cache.source_slots):
            self._attention = np.zeros((batch, beam, self._cache.source_slots), dtype=np.float32)


def _groups(sentences: Sequence[Sentence]) -> Iterator[list[Sentence]]:
    """Cut sentences, shortest first, into groups with little padding."""
    group: list[Sentence] = []
    tokens = 0
    for sentence in sentences:
        length = len(sentence.source_ids)
        padded = (len(group) + 1) * length
        if group and padded - tokens - length > _MAX_PADDED_SHARE * padded:
            yield group
            group, tokens = [], 0
        group.append(sentence)
        tokens += length
    if group:
        yield group


def _pad(source_ids: Sequence[Sequence[int]], pad_id: int) -> tuple[Ints, Ints]:
    """Return ids [batch, source] and lengths [batch]."""
    lengths = np.array([len(ids) for ids in source_ids], dtype=np.int64)
    matrix = np.full((len(source_ids), lengths.max()), pad_id, dtype=np.int64)
    for padded, ids in zip(matrix, source_ids, strict=True):
        padded[: len(ids)] = ids
    return matrix, lengths


class Decoder:
    """Running batches of one model, one for each shape of sentences. Belongs to one thread."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._batches: dict[BatchShape, Batch] = {}

    def __len__(self) -> int:
        return sum(len(batch) for batch in self._batches.values())

    @property
    def held_bytes(self) -> dict[BatchShape, int]:
        """Bytes of keys and values of each batch, empty ones included."""
        return {shape: batch.cache_bytes for shape, batch in self._batches.items()}

    def trim(self) -> None:
        """Give back the memory for keys and values that the sentences do not need."""
        self._batches = {shape: batch for shape, batch in self._batches.items() if len(batch)}
        for batch in self._batches.values():
            batch.trim()

    def admit(self, sentences: Sequence[Sentence]) -> None:
        """Encode sentences and begin their search in the batches."""
        groups: dict[BatchShape, list[Sentence]] = {}
        for sentence in sentences:
            groups.setdefault(BatchShape.of(sentence.options.decoding), []).append(sentence)
        for shape, group in sorted(groups.items()):
            self._batch(shape).admit(group)

    def _batch(self, shape: BatchShape) -> Batch:
        """Return the batch of a shape. An empty one keeps its memory until a batch of another shape is begun."""
        if shape not in self._batches:
            self._batches = {shape: batch for shape, batch in self._batches.items() if len(batch)}
            self._batches[shape] = Batch(self._sessions, shape)
        return self._batches[shape]

    def step(self) -> list[tuple[Sentence, list[TargetHypothesis]]]:
        """Extend every hypothesis by one token; return sentences that are done with their hypotheses, best first."""
        return self.advance(ONE_STEP).done

    def advance(self, limit: StepLimit) -> Advance[Sentence]:
        """Extend every hypothesis until a sentence is done or the limit reached; several shapes by one token."""
        running = [batch for batch in self._batches.values() if len(batch)]
        if len(running) == 1:
            return running[0].advance(limit)
        advances = [batch.advance(ONE_STEP) for batch in running]
        steps = max((advance.steps for advance in advances), default=0)
        done = [found for advance in advances for found in advance.done]
        return Advance(steps, done, [0] * len(done))

    def discard(self, sentences: Collection[Sentence]) -> None:
        """Give up sentences; the others go on."""
        unwanted = set(sentences)
        for batch in self._batches.values():
            batch.discard(unwanted)

    def shrink(self) -> None:
        """Let the graphs free the memory that they keep for intermediate results; what other threads use stays."""
        options = DecodingOptions(
            beam_size=1, num_hypotheses=1, length_penalty=0.0, min_target_length=0, max_target_length=1
        )
        ids = [self._sessions.special_ids.source_pad_id]
        # onnxruntime frees this memory only at the end of a run, so any sentence is decoded.
        batch = Batch(self._sessions, BatchShape.of(options), shrinks=True)
        batch.admit([Sentence(source_ids=ids, options=SearchOptions(decoding=options, max_target_length=1))])
        batch.advance(ONE_STEP)

    def partial(self, sentence: Sentence) -> list[TargetHypothesis]:
        """Return the best hypotheses of a sentence so far; empty before its first step."""
        return self._batches[BatchShape.of(sentence.options.decoding)].partial(sentence)

    def committed(self, sentence: Sentence) -> list[int]:
        """Return the final tokens at the beginning of a sentence's best hypothesis."""
        return self._batches[BatchShape.of(sentence.options.decoding)].committed(sentence)
