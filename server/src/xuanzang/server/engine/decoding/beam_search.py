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

from xuanzang.server.engine.arrays import Floats, Ints, extended
from xuanzang.server.engine.decoding.history import History
from xuanzang.server.engine.decoding.hypotheses import (
    Ending,
    Finished,
    SearchOptions,
    TargetHypothesis,
    final_score,
    rank,
)
from xuanzang.server.engine.decoding.logit_edits import Edits, hypothesis_edits, stack
from xuanzang.server.engine.decoding.sampling import Sampler
from xuanzang.server.engine.decoding.token_details import Traces

DEAD_SCORE = np.float32(-1.0e9)
"""Score of a row without hypothesis: no sum of log-probabilities comes near it, and it stays finite in the graph."""
_DEAD = float(DEAD_SCORE) / 2
# What a search knows of every sentence, or of every hypothesis.
_ARRAYS = ("token_ids", "scores", "positions", "parents")


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

    def __init__(self, options: SearchOptions, step: int) -> None:
        self.options = options
        self.finished = Finished(options)
        self.sampler = Sampler(options.sampling) if options.sampling else None
        # By the steps of the search.
        self.limit = step + options.max_target_length
        self.looked_at_from = 0 if self.sampler else self.limit
        self.constrained_until = step + options.constrained_tokens


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
        self._history = History(beam_size)
        self._step = 0
        # No row has an earlier one, none a later one: asking all rows at each step takes too long.
        self._looked_at_from = 0
        self._constrained_until = 0

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
            state = Row(option, self._step)
            self.rows[row : row + 1] = [state]  # the next one is put at the end
            self._looked_at_from = min(self._looked_at_from, state.looked_at_from)
            self._constrained_until = max(self._constrained_until, state.constrained_until)
        self.token_ids[rows] = self._start_id
        self.scores[rows] = DEAD_SCORE
        self.scores[rows, 0] = 0.0  # all hypotheses are equal at first, so only one may have children
        self.positions[rows] = 0
        self.parents[rows] = np.arange(self.beam_size)
        if self.traces:
            self.traces.join(rows)

    def _extend(self, more: int) -> None:
        for name in _ARRAYS:
            setattr(self, name, extended(getattr(self, name), more))
        self._history.extend(more)

    def select(self, order: Ints) -> None:
        """Keep only some sentences, in the order given.

        Args:
            order: Rows, [batch].
        """
        self.rows = [self.rows[row] for row in order.tolist()]
        for name in _ARRAYS:
            setattr(self, name, getattr(self, name)[order])
        self._history.select(order)
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
        if self.traces:
            self.traces.see(attention)
        self._step += 1
        self.positions += 1
        # Most sentences just go on with their best continuations; the others are looked at one by one.
        scores, ids, parents = candidates
        self.scores[:] = scores[:, : self.beam_size]
        self.token_ids[:] = ids[:, : self.beam_size]
        self.parents[:] = parents[:, : self.beam_size]
        done = [
            row
            for row in self._unusual()
            if self._advance_row(
                row, list(zip(scores[row].tolist(), ids[row].tolist(), parents[row].tolist(), strict=True))
            )
        ]
        self._history.add(self.token_ids, self.parents, self.positions)
        if self.traces:
            self.traces.inherit(self.parents, self.scores, self.positions[:, 0] - 1)
        return [(row, [self._ended(row, ending) for ending in self.rows[row].finished.best()]) for row in done]

    def _unusual(self) -> list[int]:
        """Return the rows whose hypotheses may not just go on."""
        worst = self.scores[:, -1].tolist()
        found = [
            row
            for row, (ids, score) in enumerate(zip(self.token_ids.tolist(), worst, strict=True))
            if self._eos_id in ids or score < _DEAD
        ]
        if self._step >= self._looked_at_from:
            others = [row for row, state in enumerate(self.rows) if self._step >= state.looked_at_from]
            found = sorted({*found, *others})
            going_on = (state.looked_at_from for state in self.rows if self._step < state.limit)
            self._looked_at_from = min(going_on, default=self._step + 1)
        return found

    def _advance_row(self, row: int, candidates: list[tuple[float, int, int]]) -> bool:
        """Sort the candidates of a sentence into finished ones and survivors; return whether it is done."""
        state = self.rows[row]
        allowed = [candidate for candidate in candidates if candidate[0] > _DEAD]
        if state.sampler:
            allowed = state.sampler.choose(allowed)
        at_limit = self._step >= state.limit
        for place, (score, token, parent) in enumerate(allowed[: self.beam_size]):
            if token == self._eos_id or at_limit:
                state.finished.add(self._ending(row, parent, token, score), on_top=place == 0)
        survivors = [candidate for candidate in allowed if candidate[1] != self._eos_id][: self.beam_size]
        if at_limit or not survivors or state.finished.enough():
            return True
        self._survive(row, survivors)
        return False

    def _survive(self, row: int, survivors: Sequence[tuple[float, int, int]]) -> None:
        dead = (float(DEAD_SCORE), self._eos_id, 0)
        filled = [*survivors, *[dead] * (self.beam_size - len(survivors))]
        self.scores[row], self.token_ids[row], self.parents[row] = zip(*filled, strict=True)

    def _ending(self, row: int, parent: int, token: int, total: float) -> Ending:
        """End a hypothesis with a token of this step, which the one that stood at `parent` before is given."""
        count = self._length(row)
        trace = self.traces.trace(row, parent, total, count) if self.traces else None
        return Ending(parent, token, count, final_score(total, count, self.rows[row].options, trace), trace)

    def _ended(self, row: int, ending: Ending) -> TargetHypothesis:
        """Make what is returned of a hypothesis that has ended in this step or before."""
        before = ending.token_count - 1
        tokens = self._history.tokens(row, ending.parent, before, ago=self._length(row) - before)
        finished = ending.token == self._eos_id
        return TargetHypothesis(
            target_ids=tokens if finished else [*tokens, ending.token],
            score=ending.score,
            token_count=ending.token_count,
            finished=finished,
            trace=ending.trace,
        )

    def _living(self, row: int) -> list[int]:
        return [place for place, score in enumerate(self.scores[row].tolist()) if score > _DEAD]

    def edits(self) -> Edits | None:
        """Return how logits must be changed before the next tokens are chosen; None for not at all."""
        if self._step >= self._constrained_until:
            return None
        constrained = [row for row, state in enumerate(self.rows) if self._step < state.constrained_until]
        if not constrained:
            self._constrained_until = 0
            return None
        edits = {
            (row, place): hypothesis_edits(
                self.rows[row].options, self._history.tokens(row, place, self._length(row)), eos_id=self._eos_id
            )
            for row in constrained
            for place in self._living(row)
        }
        return stack(edits, batch=len(self), beam=self.beam_size)

    def _length(self, row: int) -> int:
        return int(self.positions[row, 0])

    def partial(self, row: int) -> list[TargetHypothesis]:
        """Return the best hypotheses so far, unfinished ones too; empty before the first step."""
        state, length = self.rows[row], self._length(row)
        found = [self._ended(row, ending) for ending in state.finished.endings]
        for place in self._living(row) if length else ():
            trace = self.traces.living_trace(row, place, length) if self.traces else None
            unfinished = TargetHypothesis(
                target_ids=self._history.tokens(row, place, length),
                score=final_score(float(self.scores[row, place]), length, state.options, trace),
                token_count=length,
                finished=False,
                trace=trace,
            )
            found.append(unfinished)
        return rank(found, state.options.num_hypotheses)

    def committed(self, row: int) -> list[int]:
        """Return the tokens with which every hypothesis begins that can still be the best: they will not change."""
        living = self._living(row)
        texts = [self._history.shared(row, living, self._length(row))] if living else []
        texts += [self._ended(row, ending).target_ids for ending in self.rows[row].finished.endings]
        common = 0
        for tokens in zip(*texts, strict=False):
            if len(set(tokens)) > 1:
                break
            common += 1
        return texts[0][:common] if texts else []
