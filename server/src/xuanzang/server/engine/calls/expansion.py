"""Several searches of one sentence: independent draws, and alternatives that begin differently."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One search of a sentence."""

    owner: int
    """Position of the sentence among those of the call."""
    sentence: Sentence
    opening: TargetHypothesis | None = None
    """What all hypotheses begin with, if it was found by another search."""

    def whole(self, hypothesis: TargetHypothesis) -> TargetHypothesis:
        """Return a hypothesis of this search as if no other had been made before.

        Args:
            hypothesis: Whose score leaves out the opening, which this search was forced to take.
        """
        if self.opening is None:
            return hypothesis
        trace = hypothesis.trace
        if trace:
            first = len(self.opening.target_ids) - 1
            scores = [self.opening.score if place == first else score for place, score in enumerate(trace.scores)]
            trace = trace._replace(scores=scores)
        added = self.opening.score / hypothesis.token_count**self.sentence.options.length_penalty
        return replace(hypothesis, score=hypothesis.score + added, trace=trace)


def draws(sentences: Sequence[Sentence]) -> list[Search]:
    """Return one search for each sentence, or for each of its hypotheses if they are drawn at random."""
    return [
        Search(owner=owner, sentence=Sentence(source_ids=sentence.source_ids, options=options))
        for owner, sentence in enumerate(sentences)
        for options in _drawing(sentence.options)
    ]


def _drawing(options: SearchOptions) -> Iterator[SearchOptions]:
    if not options.sampling:
        yield options
        return
    for number in range(options.num_hypotheses):
        sampling = replace(options.sampling, seed=options.sampling.seed + number)
        yield replace(options, num_hypotheses=1, sampling=sampling)


def openings(sentences: Sequence[Sentence]) -> list[Search]:
    """Return the searches for the tokens that the alternatives of sentences have after their common prefix."""
    return [
        Search(owner=owner, sentence=Sentence(source_ids=sentence.source_ids, options=_opening(sentence.options)))
        for owner, sentence in enumerate(sentences)
    ]


def _opening(options: SearchOptions) -> SearchOptions:
    return replace(
        options,
        beam_size=options.num_hypotheses,
        max_target_length=len(options.prefix_ids) + 1,
        # Scores are to be sums.
        length_penalty=0.0,
        coverage_penalty=0.0,
        sampling=None,
    )


def continuations(
    sentences: Sequence[Sentence], found: Sequence[Sequence[TargetHypothesis]]
) -> tuple[list[Search], list[tuple[Search, TargetHypothesis]]]:
    """Go on from the openings of sentences.

    Args:
        sentences: Whose alternatives are wanted.
        found: By the searches for the openings of each.

    Returns:
        A search for each opening that has not ended, and for each that has a search that need not be made and what it
        would find.
    """
    searches: list[Search] = []
    ended: list[tuple[Search, TargetHypothesis]] = []
    for owner, (sentence, beginnings) in enumerate(zip(sentences, found, strict=True)):
        options = replace(sentence.options, num_hypotheses=1)
        for opening in beginnings:
            if opening.finished:
                score = opening.score / opening.token_count**options.length_penalty
                ended.append((Search(owner=owner, sentence=sentence), replace(opening, score=score)))
            else:
                goes_on = replace(options, prefix_ids=tuple(opening.target_ids))
                whole = Sentence(source_ids=sentence.source_ids, options=goes_on)
                searches.append(Search(owner=owner, sentence=whole, opening=opening))
    return searches, ended
