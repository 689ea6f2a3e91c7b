"""Beam search over the candidates of each decoder step: plain numpy, many sentences at once.

The rules are CTranslate2's. Of the 2 · beam best continuations of a sentence, those among the first `beam_size` that
end in eos are finished, and the best `beam_size` others live on. A sentence is done when `beam_size` hypotheses are
finished (without length penalty: when the best continuation of all is), or at its limit, where the first `beam_size`
count as they are. A hypothesis scores sum / length^α, eos counted in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xuanzang.server.engine.arrays import Floats, Ints
from xuanzang.server.engine.constraints import Edits, hypothesis_edits, stack
from xuanzang.server.engine.hypotheses import Finished, SearchOptions, TargetHypothesis, rank
from xuanzang.server.engine.sampling import Sampler
from xuanzang.server.engine.traces import Traces

DEAD_SCORE = np.float32(-1.0e9)
"""Score of a row without hypothesis: no sum of log-probabilities comes near it, and it stays finite in the graph."""
_DEAD = float(DEAD_SCORE) / 2
# What a search knows of every sentence, or of every hypothesis.
_ARRAYS = ("token_ids", "scores", "positions", "parents", "_tokens", "_limits", "_constrained")
# Room for tokens grows by this many.
_TOKENS_CHUNK = 32


class Candidates(NamedTuple):
    """The best continuations of each sentence, best first, [batch, candidate] each."""

    scores: Floats
    """Summed log-probabilities."""
    ids: Ints
    """The token that each adds."""
    parents: Ints
    """The hypothesis that each continues."""


class Row:
    """What is known of one sentence besides its living hypotheses."""

    def __init__(self, options: SearchOptions) -> None:
        self.options = options
        self.finished = Finished(options)
        self.sampler = Sampler(options.sampling) if options.sampling else None


class BeamSearch:
    """The hypotheses of a batch of sentences with the same beam size; sentences come and go.

    `token_ids`, `scores` and `positions` are what the next decoder step is asked; `advance` takes its answer. These
    arrays are changed in place by `advance`, and are other arrays after `join` and `select`.
    """

    def __init__(self, beam_size: int, *, start_id: int, eos_id: int, traced: int | None = None) -> None:
        """Start without sentences.

        Args:
            beam_size: Hypotheses of each.
            start_id: First token of all.
            eos_id: Token that ends one.
            traced: Most source positions, if attention and scores are to be kept for every token; else None.
        """
        self.beam_size = beam_size
        self._start_id, self._eos_id = start_id, eos_id
        self.rows: list[Row] = []
        self.traces = None if traced is None else Traces(beam_size, sources=traced)
        self.token_ids: Ints = np.zeros((0, beam_size), dtype=np.int64)
        """Last token of each hypothesis, [batch, beam]."""
        self.scores: Floats = np.zeros((0, beam_size), dtype=np.float32)
        """Summed log-probability of each hypothesis, [batch, beam]."""
        self.positions: Ints = np.zeros((0, 1), dtype=np.int64)
        """Position of `token_ids`, which is the number of tokens generated, [batch, 1]."""
        self.parents: Ints = np.zeros((0, beam_size), dtype=np.int64)
        """Where each hypothesis stood before the last `advance`, [batch, beam]."""
        self._tokens = np.zeros((0, beam_size, _TOKENS_CHUNK), dtype=np.int32)
        self._limits = np.zeros(0, dtype=np.int64)
        self._constrained = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.rows)

    def join(self, rows: Ints, options: Sequence[SearchOptions]) -> None:
        """Begin the search for sentences.

        Args:
            rows: Of each: places that others have left, or the next ones.
            options: Of each; the beam size is that of the search.
        """
        if (more := int(rows.max()) + 1 - len(self)) > 0:
            self._extend(more)
        for row, option in zip(rows.tolist(), options, strict=True):
            self.rows[row : row + 1] = [Row(option)]  # the next one is put at the end
        self.token_ids[rows] = self._start_id
        self.scores[rows] = DEAD_SCORE
        self.scores[rows, 0] = 0.0  # all hypotheses are equal at first, so only one may have children
        self.positions[rows] = 0
        self.parents[rows] = np.arange(self.beam_size)
        self._limits[rows] = [option.max_target_length for option in options]
        self._constrained[rows] = [option.constrained_tokens for option in options]
        if self.traces:
            self.traces.join(rows)

    def _extend(self, more: int) -> None:
        for name in _ARRAYS:
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros((more, *array.shape[1:]), dtype=array.dtype)]))

    def select(self, order: Ints) -> None:
        """Keep only some sentences, in the order given.

        Args:
            order: Rows, [batch].
        """
        self.rows = [self.rows[row] for row in order]
        for name in _ARRAYS:
            setattr(self, name, getattr(self, name)[order])
        if self.traces:
            self.traces.select(order)

    def advance(self, candidates: Candidates, attention: Floats) -> list[tuple[int, list[TargetHypothesis]]]:
        """Choose the hypotheses that live on.

        Args:
            candidates: Answer of the decoder step.
            attention: What each hypothesis' last token gave to each source position, [batch, beam, source].

        Returns:
            Rows of the sentences that are done, with up to num_hypotheses hypotheses each, best first. Their rows mean
            nothing from now on; take them out with `select`.
        """
        beam = self.beam_size
        scores, ids, parents = candidates
        if self.traces:
            self.traces.see(attention)
        self.positions += 1
        # Most rows just go on with their best continuations; the others are looked at one by one.
        unusual = (ids == self._eos_id).any(axis=1) | (self.positions[:, 0] >= self._limits) | (scores[:, -1] < _DEAD)
        np.copyto(self.parents, parents[:, :beam])
        np.copyto(self.token_ids, ids[:, :beam])
        np.copyto(self.scores, scores[:, :beam])
        done = []
        sampled = [row for row, state in enumerate(self.rows) if state.sampler]
        for row in sorted({*np.flatnonzero(unusual).tolist(), *sampled}):
            chosen = list(zip(scores[row].tolist(), ids[row].tolist(), parents[row].tolist(), strict=True))
            if self._advance_row(row, chosen):
                done.append((row, self.rows[row].finished.best()))
        self._inherit()
        return done

    def _advance_row(self, row: int, candidates: list[tuple[float, int, int]]) -> bool:
        """Sort the candidates of a sentence into finished ones and survivors; return whether it is done."""
        state, length = self.rows[row], self._length(row)
        options = state.options
        allowed = [candidate for candidate in candidates if candidate[0] > _DEAD]
        if state.sampler:
            allowed = state.sampler.choose(allowed)
        at_limit = length >= options.max_target_length
        for place, (score, token, parent) in enumerate(allowed[: self.beam_size]):
            if token == self._eos_id or at_limit:
                state.finished.add(self._hypothesis(row, parent, token, score), on_top=place == 0)
        survivors = [candidate for candidate in allowed if candidate[1] != self._eos_id][: self.beam_size]
        self._survive(row, survivors)
        return at_limit or not survivors or state.finished.enough()

    def _survive(self, row: int, survivors: Sequence[tuple[float, int, int]]) -> None:
        dead = (float(DEAD_SCORE), self._eos_id, 0)
        filled = [*survivors, *[dead] * (self.beam_size - len(survivors))]
        self.scores[row], self.token_ids[row], self.parents[row] = zip(*filled, strict=True)

    def _inherit(self) -> None:
        """Give every hypothesis the tokens of its parent and its own."""
        rows = np.arange(len(self))
        places = self.positions[:, 0] - 1
        if places.max(initial=0) >= self._tokens.shape[2]:
            self._tokens = np.pad(self._tokens, ((0, 0), (0, 0), (0, _TOKENS_CHUNK)))
        self._tokens = self._tokens[rows[:, None], self.parents]
        self._tokens[rows, :, places] = self.token_ids
        if self.traces:
            self.traces.inherit(self.parents, self.scores, places)

    def _hypothesis(self, row: int, parent: int, token: int, total: float) -> TargetHypothesis:
        """Make what is returned of the continuation of a hypothesis that stood in row `parent` before this step."""
        ended = token == self._eos_id
        tokens = self.tokens(row, parent, self._length(row) - 1)
        if not ended:
            tokens.append(token)
        trace = self.traces.trace(row, parent, total, len(tokens) + ended) if self.traces else None
        return TargetHypothesis.scored(tokens, total, self.rows[row].options, finished=ended, trace=trace)

    def edits(self) -> Edits | None:
        """Return how logits must be changed before the next tokens are chosen; None for not at all."""
        constrained: list[int] = np.flatnonzero(self.positions[:, 0] < self._constrained).tolist()
        if not constrained:
            return None
        places = range(self.beam_size)
        edits = {
            (row, place): hypothesis_edits(
                self.rows[row].options, self.tokens(row, place, self._length(row)), eos_id=self._eos_id
            )
            for row in constrained
            for place in places
        }
        return stack(edits, batch=len(self), beam=self.beam_size)

    def _length(self, row: int) -> int:
        return int(self.positions[row, 0])

    def tokens(self, row: int, hypothesis: int, count: int) -> list[int]:
        """Return the first tokens of a hypothesis."""
        found: list[int] = self._tokens[row, hypothesis, :count].tolist()
        return found

    def partial(self, row: int) -> list[TargetHypothesis]:
        """Return the best hypotheses so far, unfinished ones too; empty before the first step."""
        length = self._length(row)
        living = [place for place in range(self.beam_size) if length and self.scores[row, place] > _DEAD]
        unfinished = [
            TargetHypothesis.scored(
                self.tokens(row, place, length),
                float(self.scores[row, place]),
                self.rows[row].options,
                finished=False,
                trace=self.traces.living_trace(row, place, length) if self.traces else None,
            )
            for place in living
        ]
        return rank([*self.rows[row].finished.hypotheses, *unfinished], self.rows[row].options.num_hypotheses)

    def committed(self, row: int) -> list[int]:
        """Return the tokens with which every hypothesis begins that can still be the best: they will not change."""
        length = self._length(row)
        living = [place for place in range(self.beam_size) if self.scores[row, place] > _DEAD]
        texts = [self.tokens(row, place, length) for place in living]
        texts += [hypothesis.target_ids for hypothesis in self.rows[row].finished.hypotheses]
        common = 0
        for tokens in zip(*texts, strict=False):
            if len(set(tokens)) > 1:
                break
            common += 1
        return texts[0][:common] if texts else []
