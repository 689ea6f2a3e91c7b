"""Beam search over the candidates of each decoder step: plain numpy, many sentences at once.

The rules are CTranslate2's. Among the 2 · beam best continuations of a sentence, those of the first `beam_size` that
end in eos are finished, and the best `beam_size` others live on. A sentence is done when `beam_size` hypotheses are
finished (without length penalty: when the best continuation of all is), or at its limit, where the first `beam_size`
count unfinished. A hypothesis scores sum / length^α, eos counted in both.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import numpy as np

from xuanzang.kernels.decode import DecodeSteps, Done, StepLimit
from xuanzang.kernels.graphs import Tensor
from xuanzang.kernels.step_functions import StepFunctions
from xuanzang.kernels.steps import ContinueBest
from xuanzang.server.engine.arrays import Floats, Ints, Order
from xuanzang.server.engine.decoding.hypotheses import (
    Advance,
    Ending,
    RecordedStep,
    SearchOptions,
    TargetHypothesis,
    final_score,
    rank,
)
from xuanzang.server.engine.decoding.logit_edits import LogitEdits, hypothesis_edits, stack
from xuanzang.server.engine.decoding.phrase_search import Inspection, RequiredPhraseSearch
from xuanzang.server.engine.decoding.search_state import (
    DEAD_LIMIT,
    DEAD_SCORE,
    BeamArrays,
    Candidates,
    History,
    SentenceState,
)
from xuanzang.server.engine.decoding.token_details import TokenDetailRecorder


class BeamSearch:
    """The hypotheses of a batch of sentences with the same beam size; sentences join and leave.

    `beams` is the input of the next decoder step; `advance` takes its output. The arrays are changed in place by
    `advance`, and replaced by `join` and `select`. Sentences are named by their batch index.
    """

    def __init__(
        self,
        beam_size: int,
        *,
        start_id: int,
        eos_id: int,
        details: TokenDetailRecorder | None = None,
        functions: StepFunctions | None = None,
    ) -> None:
        """Start without sentences; with functions of the kernels, they do the same as numpy faster."""
        self.beam_size = beam_size
        self._start_id, self._eos_id = start_id, eos_id
        self.sentences: list[SentenceState] = []
        self.details = details
        self.beams = BeamArrays.empty(beam_size)
        self.required = RequiredPhraseSearch(beam_size, eos_id)
        """Search of the sentences that require phrases."""
        self.continue_best = ContinueBest(functions, eos_id=eos_id, dead=DEAD_LIMIT) if functions else None
        """Bookkeeping of the hypotheses by the kernels; None without."""
        self._history = History(beam_size)
        self._step = 0
        # Batch indices of the sentences whose search is recorded; hardly ever any.
        self._recorded: list[int] = []
        # Bounds over all sentences: asking each of them at each step takes too long.
        self._inspected_from = 0
        self._edited_until = 0

    def __len__(self) -> int:
        return len(self.sentences)

    def join(self, indices: Ints, options: Sequence[SearchOptions]) -> None:
        """Begin the search of sentences at batch indices, of sentences that have left or the next ones."""
        if (more := int(indices.max()) + 1 - len(self.sentences)) > 0:
            self.beams = self.beams.extended(more)
            self._history.extend(more)
        recorded = False
        for index, option in zip(indices.tolist(), options, strict=True):
            state = SentenceState(option, self._step)
            self.sentences[index : index + 1] = [state]  # the next one is put at the end
            self._edited_until = max(self._edited_until, state.edited_until)
            if option.recorder:
                recorded = True
                option.recorder.begin(option.decoding.no_repeat_ngram_size)
        if self._recorded or recorded:
            self._find_recorded()
        self._find_inspected()
        beams = self.beams
        beams.token_ids[indices] = self._start_id
        beams.scores[indices] = DEAD_SCORE
        beams.scores[indices, 0] = 0.0  # all hypotheses are equal at first, so only one may have children
        beams.positions[indices] = 0
        beams.parents[indices] = np.arange(self.beam_size)
        phrases = [option.phrases for option in options]
        if self.required.indices.size or any(phrases):
            self.required.join(indices, phrases)
        if self.details:
            self.details.join(indices)

    def select(self, order: Order) -> None:
        """Keep only some sentences, in the order given."""
        self.sentences = [self.sentences[index] for index in order.kept.tolist()]
        self._find_inspected()
        self.beams = self.beams.selected(order)
        if self._recorded:
            self._find_recorded()
        self._history.select(order)
        self.required.select(order)
        if self.details:
            self.details.select(order)

    def _find_recorded(self) -> None:
        self._recorded = [index for index, state in enumerate(self.sentences) if state.options.recorder]

    def _find_inspected(self) -> None:
        """Forget the limits of sentences that have left."""
        self._inspected_from = min([state.inspected_from for state in self.sentences], default=0)

    @property
    def free_steps(self) -> int:
        """Number of steps from now, at least one, that concern the search only if a sentence is done in them."""
        # Of edits only those of the first step are given.
        concerned = self.details or self._recorded or self.required.indices.size or self._step + 1 < self._edited_until
        return 1 if concerned else max(1, self._inspected_from - 1 - self._step)

    def advance_by(
        self, steps: DecodeSteps, candidates: Candidates, limit: StepLimit, later: Mapping[str, Tensor]
    ) -> tuple[Advance[int], list[int]]:
        """Let the kernels take steps, at most `free_steps`.

        Args:
            steps: Steps of the decoder, bound to `beams` and `candidates`, its output.
            later: Inputs of the decoder from the second step on.

        Returns:
            Their number, and the joint result of `advance`; batch indices before, of the sentences as they are
            now, if some have changed places.
        """
        if self.continue_best:
            self.continue_best.fit(*candidates, *self.beams)
        self._history.make_room(limit.steps, self.beams.positions)
        endings_left = np.array([state.endings_left for state in self.sentences], dtype=np.int64)
        taken = steps(self._history.links, self._history.steps, endings_left, limit, later)
        if taken.order:
            self.sentences = [self.sentences[index] for index in taken.order]
        for index, length, parent, total in taken.endings:
            score = final_score(total, length, self.sentences[index].options.decoding, None)
            self.sentences[index].end(Ending(parent, self._eos_id, length, score, None), is_best=False)
        self._step += taken.steps
        self._history.steps += taken.steps - 1
        done = [index for index in taken.inspected if self._advance_sentence(index, candidates.of(index))]
        self._history.add(self.beams.token_ids, self.beams.parents, self.beams.positions)
        all_done = [*taken.done, *(Done(index, 0) for index in done)]
        found = [self._result(index, ago) for index, ago in all_done]
        return Advance(taken.steps, found, [ago for _, ago in all_done]), taken.order

    def advance(
        self, candidates: Candidates, attention: Floats, inspection: Inspection | None = None
    ) -> list[tuple[int, list[TargetHypothesis]]]:
        """Choose the hypotheses that live on among the candidates of a decoder step.

        Args:
            attention: Attention of each hypothesis' last token to each source position, [batch, beam, source].
            inspection: Output of the step for the rows of `required`; None if no sentence requires phrases.

        Returns:
            Batch indices of the sentences that are done, with up to num_hypotheses hypotheses each, best first. What
            the search holds of them is meaningless from now on; take them out with `select`, or let others take their
            indices.
        """
        if self.details:
            self.details.observe(attention)
        self._step += 1
        required = set(self.required.indices.tolist()) if inspection else set()
        forced = self._forced_ends(required) if self._step >= self._inspected_from else {}
        before = self.beams.scores[self.required.indices] if inspection else self.beams.scores
        inspected = self._to_inspect(self._continue_best(candidates))
        done = [
            index
            for index in inspected
            if index not in required and self._advance_sentence(index, forced.get(index) or candidates.of(index))
        ]
        if inspection:
            done += self._advance_required(before, inspection)
        for index in self._recorded:
            considered = forced.get(index) or candidates.of(index)
            self._record(index, considered, is_last=index in done)
        beams = self.beams
        self._history.add(beams.token_ids, beams.parents, beams.positions)
        if self.details:
            self.details.advance(beams.parents, beams.scores, beams.positions[:, 0] - 1)
        return [self._result(index) for index in done]

    def _result(self, index: int, ago: int = 0) -> tuple[int, list[TargetHypothesis]]:
        """Return a sentence that is done, since some steps ago, and its hypotheses, best first."""
        state = self.sentences[index]
        return index, [self._ended(index, ending, ago) for ending in rank(state.endings, state.options.returned)]

    def _forced_ends(self, required: Container[int]) -> dict[int, list[tuple[float, int, int]]]:
        """Return the candidates of sentences at a limit where every hypothesis ends at no cost, by batch index."""
        at_limit = [
            index
            for index, state in enumerate(self.sentences)
            if state.options.rules.forces_end and self._step >= state.limit and index not in required
        ]
        scores = {index: self.beams.scores[index].tolist() for index in at_limit}
        return {
            index: sorted(((score, self._eos_id, parent) for parent, score in enumerate(row)), key=lambda one: -one[0])
            for index, row in scores.items()
        }

    def _record(self, index: int, candidates: list[tuple[float, int, int]], *, is_last: bool) -> None:
        state, length = self.sentences[index], self._length(index)
        arrays = (self.beams.token_ids, self.beams.parents, self.beams.scores)
        hypotheses = zip(*(array[index].tolist() for array in arrays), strict=True)
        live = [(token, parent) for token, parent, score in hypotheses if score > DEAD_LIMIT and not is_last]
        ended = [ending for ending in state.endings if ending.token_count == length]
        if state.options.recorder:
            state.options.recorder.add(RecordedStep(candidates, live, ended, is_last))

    def _continue_best(self, candidates: Candidates) -> list[int]:
        """Let every sentence go on with its best continuations; return those with a hypothesis ended or missing."""
        beams = self.beams
        if self.continue_best:
            return self.continue_best(*candidates, *self.beams)
        beams.positions[:] += 1
        beams.scores[:] = candidates.scores[:, : self.beam_size]
        beams.token_ids[:] = candidates.ids[:, : self.beam_size]
        beams.parents[:] = candidates.parents[:, : self.beam_size]
        unusual = (beams.token_ids == self._eos_id).any(axis=1) | (beams.scores[:, -1] < DEAD_LIMIT)
        found: list[int] = np.flatnonzero(unusual).tolist()
        return found

    def _to_inspect(self, found: list[int]) -> list[int]:
        """Return the sentences whose best continuations may not just live on, those of `_continue_best` among them."""
        if self._step >= self._inspected_from:
            others = [index for index, state in enumerate(self.sentences) if self._step >= state.inspected_from]
            found = sorted({*found, *others})
            going_on = (state.inspected_from for state in self.sentences if self._step < state.limit)
            self._inspected_from = min(going_on, default=self._step + 1)
        return found

    def _advance_sentence(self, index: int, candidates: list[tuple[float, int, int]]) -> bool:
        """Sort the candidates of a sentence into finished ones and survivors; return whether it is done."""
        state = self.sentences[index]
        allowed = [candidate for candidate in candidates if candidate[0] > DEAD_LIMIT]
        if state.sampler:
            allowed = state.sampler.choose(allowed)
        at_limit, places = self._step >= state.limit, state.places
        if state.options.rules.shrinks:
            allowed = allowed[:places]
        for number, (score, token, parent) in enumerate(allowed[:places]):
            if token == self._eos_id or at_limit:
                state.end(self._ending(index, parent, token, score), is_best=number == 0)
        self._inspected_from = min(self._inspected_from, state.inspected_from)
        survivors = [candidate for candidate in allowed if candidate[1] != self._eos_id][: self.beam_size]
        if at_limit or not survivors:
            return True
        # As if the best live one ended with this step.
        going_on = float(survivors[0][0] / self._length(index) ** state.options.decoding.length_penalty)
        if state.is_enough(going_on):
            return True
        dead = (float(DEAD_SCORE), self._eos_id, 0)
        filled = [*survivors, *[dead] * (self.beam_size - len(survivors))]
        beams = self.beams
        beams.scores[index], beams.token_ids[index], beams.parents[index] = zip(*filled, strict=True)
        return False

    def _advance_required(self, scores: Floats, inspection: Inspection) -> list[int]:
        """Continue the sentences that require phrases; return the finished ones."""
        beams, done = self.beams, []
        limits = np.array([self.sentences[index].limit for index in self.required.indices.tolist()])
        for index, choice in self.required.choose(scores, inspection, limits - self._step):
            beams.scores[index], beams.token_ids[index] = choice.scores, choice.tokens
            beams.parents[index] = choice.parents
            if self._finish_required(index, choice.endings, float(choice.scores.max())):
                done.append(index)
        return done

    def _finish_required(self, index: int, endings: Sequence[tuple[int, int, float]], best: float) -> bool:
        """Keep hypotheses of a sentence that have ended, by parent, last token and score; return whether it is done.

        `best` is the greatest score of the hypotheses that live on, less than all where there is none.
        """
        state, beams = self.sentences[index], self.beams
        cut = []
        if self._step >= state.limit:
            live = (array[index].tolist() for array in (beams.parents, beams.token_ids, beams.scores))
            cut = [one for one in zip(*live, strict=True) if one[2] > DEAD_LIMIT]
        for parent, token, total in [*endings, *cut]:
            state.end(self._ending(index, parent, token, total), is_best=total > best)
        outdone = best / (self._length(index) + 1) ** state.options.decoding.length_penalty
        return bool(cut) or best < DEAD_LIMIT or state.is_settled(outdone)

    def _ending(self, index: int, parent: int, token: int, total: float) -> Ending:
        """End a hypothesis with a token of this step, added to the one at beam position `parent` before it."""
        count = self._length(index)
        details = self.details.of_ending(index, parent, total, count) if self.details else None
        score = final_score(total, count, self.sentences[index].options.decoding, details)
        return Ending(parent, token, count, score, details)

    def _ended(self, index: int, ending: Ending, ago: int = 0) -> TargetHypothesis:
        """Look up the tokens of a hypothesis that ended in the last step of its sentence, some steps ago, or before."""
        before = ending.token_count - 1
        tokens = self._history.tokens(index, ending.parent, before, ago=self._length(index) - before + ago)
        finished = ending.token == self._eos_id
        return TargetHypothesis(
            target_ids=tokens if finished else [*tokens, ending.token],
            score=ending.score,
            token_count=ending.token_count,
            finished=finished,
            details=ending.details,
        )

    def _live(self, index: int) -> list[int]:
        """Return the beam positions that hold a hypothesis."""
        live: list[int] = np.flatnonzero(self.beams.scores[index] > DEAD_LIMIT).tolist()
        return live

    def edits(self) -> LogitEdits | None:
        """Return the changes of logits before the next tokens are chosen; None for none."""
        if self._step >= self._edited_until:
            return None
        edited = [index for index, state in enumerate(self.sentences) if self._step < state.edited_until]
        if not edited:
            self._edited_until = 0
            return None
        edits = {}
        for index in edited:
            options, length = self.sentences[index].options, self._length(index)
            for position in self._live(index):
                # As many numbers do where edits depend on that alone.
                follows = options.edits_follow_tokens
                tokens = self._history.tokens(index, position, length) if follows else range(length)
                edits[index, position] = hypothesis_edits(options, tokens, eos_id=self._eos_id)
        return stack(edits, batch=len(self.sentences), beam=self.beam_size)

    def _length(self, index: int) -> int:
        return int(self.beams.positions[index, 0])

    def partial(self, index: int) -> list[TargetHypothesis]:
        """Return the best hypotheses so far, unfinished ones too; empty before the first step."""
        state, length = self.sentences[index], self._length(index)
        found = [self._ended(index, ending) for ending in state.endings]
        found += [self._unfinished(index, position) for position in (self._live(index) if length else ())]
        return rank(found, state.options.decoding.num_hypotheses)

    def _unfinished(self, index: int, beam_position: int) -> TargetHypothesis:
        state, length = self.sentences[index], self._length(index)
        details = self.details.of_live(index, beam_position, length) if self.details else None
        total = float(self.beams.scores[index, beam_position])
        return TargetHypothesis(
            target_ids=self._history.tokens(index, beam_position, length),
            score=final_score(total, length, state.options.decoding, details),
            token_count=length,
            finished=False,
            details=details,
        )

    def committed(self, index: int) -> list[int]:
        """Return the common beginning of all hypotheses that can still be the best: its tokens are final."""
        live = self._live(index)
        begun = [self._history.shared(index, live, self._length(index))] if live else []
        begun += [self._ended(index, ending).target_ids for ending in self.sentences[index].endings]
        common = 0
        for tokens in zip(*begun, strict=False):
            if len(set(tokens)) > 1:
                break
            common += 1
        return begun[0][:common] if begun else []
