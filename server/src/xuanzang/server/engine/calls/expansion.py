"""Expansion of a sentence into several searches: first words, independent draws, and alternatives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from xuanzang.server.engine.calls.rendering import PlannedSearch
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis
from xuanzang.server.engine.types import FinishReason, Hypothesis, SamplingOptions


class Expansion(NamedTuple):
    """The searches that are made for the sentences of a call."""

    owners: Sequence[int]
    """Position of the sentence of each search among those of the call."""
    searches: Sequence[PlannedSearch]


def draws(searches: Sequence[PlannedSearch], sampling: SamplingOptions) -> Expansion:
    """Return a search for each hypothesis of sentences that are drawn at random, each with its own seed."""
    owners: list[int] = []
    drawn: list[PlannedSearch] = []
    for owner, search in enumerate(searches):
        options = search.sentence.options
        for seed in range(sampling.seed, sampling.seed + options.decoding.num_hypotheses):
            decoding = replace(options.decoding, num_hypotheses=1, sampling=replace(sampling, seed=seed))
            owners.append(owner)
            drawn.append(_with_options(search, replace(options, decoding=decoding)))
    return Expansion(owners, drawn)


def lexicon_first(searches: Sequence[PlannedSearch]) -> Expansion:
    """Return the searches of sentences; the best hypothesis of first words is the translation of the lexicon.

    The search is forced to it. Forced tokens cost nothing, so its score is 0, which no other hypothesis exceeds.
    """
    if not any(map(attrgetter("lexicon_ids"), searches)):
        return Expansion(range(len(searches)), searches)
    planned = [(owner, each) for owner, search in enumerate(searches) for each in _with_lexicon(search)]
    return Expansion([owner for owner, _ in planned], [search for _, search in planned])


def _with_lexicon(search: PlannedSearch) -> Iterator[PlannedSearch]:
    if not search.lexicon_ids:
        yield search
        return
    options = search.sentence.options
    first, others = (
        replace(options, decoding=replace(options.decoding, num_hypotheses=count))
        for count in (1, options.decoding.num_hypotheses - 1)
    )
    ids = search.lexicon_ids
    # The model did not choose the tokens, so its probabilities and attention say nothing: each stands for all words.
    spans = search.renderer.source_spans
    words = [(spans[0][0], max(end for _, end in spans))] * len(spans) if spans else ()
    certain = search._replace(
        renderer=replace(search.renderer, assessor=None, source_spans=words, looks_at_amounts=False)
    )
    yield _with_options(certain, replace(first, prefix_ids=ids, max_target_length=len(ids)))
    if others.decoding.num_hypotheses:
        # The end token is left to the search.
        suppressed = (*options.suppressed_sequences, ids[:-1])
        yield _with_options(search, replace(others, suppressed_sequences=suppressed))._replace(lexicon_ids=())


def openings(searches: Sequence[PlannedSearch]) -> list[PlannedSearch]:
    """Return the searches for the tokens that the alternatives of sentences have after their common prefix."""
    return [_with_options(search, _opening(search.sentence.options))._replace(lexicon_ids=()) for search in searches]


def _opening(options: SearchOptions) -> SearchOptions:
    # Scores of openings are sums; the continuations' scores are added.
    decoding = replace(
        options.decoding,
        beam_size=options.decoding.num_hypotheses,
        length_penalty=0.0,
        coverage_penalty=0.0,
        sampling=None,
    )
    # Required phrases are left to the continuations.
    return replace(
        options, decoding=decoding, max_target_length=len(options.prefix_ids) + 1, phrases=None, expected_phrases=None
    )


def continuations(
    searches: Sequence[PlannedSearch], found: Sequence[Sequence[TargetHypothesis]]
) -> tuple[Expansion, list[tuple[int, Hypothesis]]]:
    """Continue the openings of sentences; the best alternative of first words is the translation of the lexicon.

    Returns:
        A search for each opening that has not ended, and the hypotheses that have ended already, with the positions of
        their sentences.
    """
    owners: list[int] = []
    continued: list[PlannedSearch] = []
    ended: list[tuple[int, Hypothesis]] = []
    for owner, (search, beginnings) in enumerate(zip(searches, found, strict=True)):
        if search.lexicon_ids:
            owners.append(owner)
            continued.append(next(_with_lexicon(search)))
        for opening in _others(search, beginnings):
            if opening.finished:
                ended.append((owner, _ended(search, opening)))
            else:
                owners.append(owner)
                continued.append(_continued(search, opening))
    return Expansion(owners, continued), ended


def _ended(search: PlannedSearch, opening: TargetHypothesis) -> Hypothesis:
    score = opening.score / opening.token_count**search.sentence.options.decoding.length_penalty
    return search.renderer.render(search.sentence, replace(opening, score=score), cut=FinishReason.MAX_LENGTH)


def _others(search: PlannedSearch, beginnings: Sequence[TargetHypothesis]) -> Sequence[TargetHypothesis]:
    """Return the openings to continue beside the translation of the lexicon, if there is one."""
    if not (ids := search.lexicon_ids):
        return beginnings
    others = [each for each in beginnings if tuple(each.target_ids) != ids[: len(each.target_ids)]]
    return others[: search.sentence.options.decoding.num_hypotheses - 1]


def _continued(search: PlannedSearch, opening: TargetHypothesis) -> PlannedSearch:
    options = search.sentence.options
    forced = replace(
        options, decoding=replace(options.decoding, num_hypotheses=1), prefix_ids=tuple(opening.target_ids)
    )
    continued = _with_options(search, forced)
    return continued._replace(renderer=replace(search.renderer, opening=opening), lexicon_ids=())


def _with_options(search: PlannedSearch, options: SearchOptions) -> PlannedSearch:
    return search._replace(sentence=Sentence(source_ids=search.sentence.source_ids, options=options))
