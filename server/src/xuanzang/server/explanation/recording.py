"""The record of the search of one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from xuanzang.server.engine.calls.rendering import PlannedSearch, SentenceResult
from xuanzang.server.engine.decoding.hypotheses import RecordedStep, SearchOptions, SearchRecorder, TargetHypothesis
from xuanzang.server.engine.decoding.logit_edits import prohibitions
from xuanzang.server.engine.decoding.search_state import DEAD_LIMIT
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.text.offsets import Span
from xuanzang.translation.v1 import explanation_pb2 as pb

MAX_CANDIDATES = 64
"""Candidates of a step that are shown: the search has 32 at most, and options exclude others."""
Pieces = Callable[[int], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSearch:
    """A search that is over."""

    source_ids: Sequence[int]
    spans: Sequence[Span]
    """Characters of the content that each source token stands for."""
    options: SearchOptions
    """Options of the last search."""
    found: Sequence[TargetHypothesis]
    """Hypotheses returned, best first, with details."""
    recorder: SearchRecorder


class WatchedSearch:
    """Has the search of a call with one sentence recorded."""

    def __init__(self, *, max_tokens: int) -> None:
        """Begin before the call, with a limit on tokens of the sentence and steps."""
        self._max_tokens = max_tokens
        self._recorder = SearchRecorder(max_steps=max_tokens)
        self.search: RecordedSearch | None = None
        """The search; None before the call is answered, and if there was nothing to translate."""

    def begin(self, searches: Sequence[PlannedSearch]) -> None:
        """Set the recorder of the search; InvalidInputError: there are several sentences, or too many tokens."""
        if len(searches) > 1:
            raise _fault(f"must be one sentence, has {len(searches)}")
        sentence = searches[0].sentence
        if len(sentence.source_ids) > self._max_tokens:
            raise _fault(f"must have at most {self._max_tokens} source tokens, has {len(sentence.source_ids)}")
        sentence.options = replace(sentence.options, recorder=self._recorder)

    def end(self, searches: Sequence[PlannedSearch], results: Sequence[SentenceResult]) -> None:
        """Take the result."""
        [planned], [result] = searches, results
        options = planned.sentence.options
        decoding = replace(options.decoding, no_repeat_ngram_size=self._recorder.no_repeat_ngram_size)
        self.search = RecordedSearch(
            source_ids=planned.sentence.source_ids,
            spans=planned.renderer.source_spans,
            options=replace(options, decoding=decoding),
            found=result.found,
            recorder=self._recorder,
        )


def _fault(description: str) -> InvalidInputError:
    return InvalidInputError([FieldViolation(field="contents[0]", description=description)])


class _Hypothesis(NamedTuple):
    """A hypothesis that is live before a step."""

    candidate: int | None
    """Index of its last token among the candidates of the step before; None before the first step."""
    tokens: tuple[int, ...]


class SearchTree:
    """Follows the hypotheses of a recorded search from step to step."""

    def __init__(
        self, options: SearchOptions, found: Sequence[TargetHypothesis], *, eos_id: int, piece_of: Pieces
    ) -> None:
        """Begin before the first step of a search that has found hypotheses, best first."""
        self._options, self._eos_id, self._piece_of = options, eos_id, piece_of
        self._ranks = {(tuple(each.target_ids), each.finished): rank for rank, each in enumerate(found, 1)}
        self._live: dict[int, _Hypothesis] = {0: _Hypothesis(None, ())}

    def steps(self, recorded: Sequence[RecordedStep]) -> Iterator[pb.SearchStep]:
        """Yield the steps of the tree."""
        for step in recorded:
            ends = all(token == self._eos_id for _, token, _ in step.candidates)  # at a limit that forces it
            candidates = [*self._considered(step), *([] if ends else self._excluded())]
            omitted = max(0, len(candidates) - MAX_CANDIDATES)
            yield pb.SearchStep(candidates=candidates[:MAX_CANDIDATES], omitted_candidates=omitted)
            indices = {(_parent(each), each.id): index for index, each in enumerate(candidates)}
            self._live = {
                position: _Hypothesis(indices[before.candidate, token], (*before.tokens, token))
                for position, (token, parent) in enumerate(step.live)
                for before in (self._live[parent],)
            }

    def _considered(self, step: RecordedStep) -> Iterator[pb.SearchCandidate]:
        """Yield the candidates of the search."""
        going_on = 0
        for score, token, parent in step.candidates:
            # Forbidden tokens, and continuations of no hypothesis.
            if score <= DEAD_LIMIT or parent not in self._live:
                continue
            candidate = self._pruned(self._live[parent], token)
            candidate.score = score
            fits = going_on < self._options.decoding.beam_size
            going_on += token != self._eos_id
            self._judge(candidate, step, parent, fits=fits)
            yield candidate

    def _pruned(self, before: _Hypothesis, token: int) -> pb.SearchCandidate:
        return pb.SearchCandidate(
            parent=before.candidate, id=token, piece=self._piece_of(token), fate=pb.CANDIDATE_FATE_PRUNED
        )

    def _judge(self, candidate: pb.SearchCandidate, step: RecordedStep, parent: int, *, fits: bool) -> None:
        """Say what became of a candidate; `fits` says whether the beam had room for one more that goes on."""
        token, is_end = candidate.id, candidate.id == self._eos_id
        before = self._live[parent].tokens
        for ending in step.endings:
            if (ending.parent, ending.token) == (parent, token):
                candidate.fate = pb.CANDIDATE_FATE_FINISHED
                candidate.reason = pb.CANDIDATE_REASON_END_OF_SENTENCE if is_end else pb.CANDIDATE_REASON_MAX_LENGTH
                candidate.final_score = ending.score
                if rank := self._ranks.get((before if is_end else (*before, token), is_end)):
                    candidate.rank = rank
                return
        if (token, parent) in step.live:
            candidate.fate = pb.CANDIDATE_FATE_KEPT
            if len(before) < len(self._options.prefix_ids):
                candidate.reason = pb.CANDIDATE_REASON_FORCED
        elif is_end:
            candidate.reason = pb.CANDIDATE_REASON_END_OUTSIDE_BEAM
        else:
            over = step.is_last and fits
            candidate.reason = pb.CANDIDATE_REASON_SEARCH_OVER if over else pb.CANDIDATE_REASON_OUTSIDE_BEAM

    def _excluded(self) -> Iterator[pb.SearchCandidate]:
        for before in self._live.values():
            if len(before.tokens) < len(self._options.prefix_ids):
                continue
            excluded = prohibitions(self._options, before.tokens, eos_id=self._eos_id)
            for token, prohibition in excluded.items():
                candidate = self._pruned(before, token)
                candidate.reason = pb.CandidateReason.Value(f"CANDIDATE_REASON_{prohibition.name}")
                yield candidate


def path_of(tokens: Sequence[int], steps: Sequence[pb.SearchStep]) -> list[int]:
    """Return the index of the candidate of each token of a hypothesis, eos included, as far as the steps go."""
    path: list[int] = []
    for token, step in zip(tokens, steps, strict=False):
        parent = path[-1] if path else None
        path.append(
            next(
                index
                for index, each in enumerate(step.candidates)
                if (_parent(each), each.id) == (parent, token) and each.fate != pb.CANDIDATE_FATE_PRUNED
            )
        )
    return path


def _parent(candidate: pb.SearchCandidate) -> int | None:
    return candidate.parent if candidate.HasField("parent") else None
