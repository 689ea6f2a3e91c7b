from __future__ import annotations

import dataclasses
import math

import pytest

from xuanzang.server.engine.calls.expansion import continuations, draws, openings
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis, Trace
from xuanzang.server.engine.types import SamplingOptions

OPTIONS = SearchOptions(
    beam_size=4, num_hypotheses=3, length_penalty=0.5, min_target_length=0, max_target_length=9, prefix_ids=(7, 8)
)
SENTENCE = Sentence(source_ids=[5, 6, 2], options=OPTIONS)


def hypothesis(*target_ids: int, score: float, finished: bool, traced: bool = False) -> TargetHypothesis:
    count = len(target_ids) + finished
    trace = Trace([score / count] * count, [0] * count, 0.0) if traced else None
    return TargetHypothesis(target_ids=list(target_ids), score=score, token_count=count, finished=finished, trace=trace)


def test_a_search_for_openings_is_as_wide_as_there_are_alternatives_and_one_token_longer_than_the_prefix() -> None:
    [search] = openings([SENTENCE])
    options = search.sentence.options
    assert (options.beam_size, options.num_hypotheses, options.max_target_length) == (3, 3, 3)
    assert (options.prefix_ids, options.length_penalty) == ((7, 8), 0.0)


def test_each_opening_is_continued_by_a_search_that_is_forced_to_begin_with_it() -> None:
    found = [hypothesis(7, 8, 9, score=-0.5, finished=False), hypothesis(7, 8, 4, score=-1.5, finished=False)]
    searches, ended = continuations([SENTENCE], [found])
    assert [search.sentence.options.prefix_ids for search in searches] == [(7, 8, 9), (7, 8, 4)]
    assert all(
        dataclasses.replace(search.sentence.options, prefix_ids=(7, 8), num_hypotheses=3) == OPTIONS
        for search in searches
    )
    assert ended == []


def test_an_opening_that_has_ended_is_an_alternative_scored_as_others_are() -> None:
    searches, [(search, ended)] = continuations([SENTENCE], [[hypothesis(7, 8, score=-1.2, finished=True)]])
    assert searches == []
    assert search.owner == 0
    assert ended.score == pytest.approx(-1.2 / math.sqrt(3))


def test_the_score_of_an_alternative_counts_the_token_that_it_was_forced_to_begin_with() -> None:
    opening = hypothesis(7, 8, 9, score=-0.5, finished=False)
    [search], _ = continuations([SENTENCE], [[opening]])
    # The forced tokens were free: of 4 tokens and an end only the last two have a score.
    forced = TargetHypothesis(
        target_ids=[7, 8, 9, 3],
        score=-1.0 / math.sqrt(5),
        token_count=5,
        finished=True,
        trace=Trace([0.0, 0.0, 0.0, -0.4, -0.6], [0] * 5, 0.0),
    )
    whole = search.whole(forced)
    assert whole.trace is not None
    assert whole.trace.scores == [0.0, 0.0, -0.5, -0.4, -0.6]
    assert whole.score == pytest.approx(sum(whole.trace.scores) / math.sqrt(5))


def test_a_hypothesis_of_an_ordinary_search_is_whole() -> None:
    [search] = draws([SENTENCE])
    found = hypothesis(1, 2, score=-1.0, finished=True, traced=True)
    assert search.whole(found) is found


def test_each_draw_has_a_seed_of_its_own_and_one_hypothesis() -> None:
    sampling = SamplingOptions(top_k=5, top_p=0.9, temperature=1.0, seed=40)
    sentence = Sentence(source_ids=[5, 2], options=dataclasses.replace(OPTIONS, beam_size=1, sampling=sampling))
    searches = draws([SENTENCE, sentence])
    assert [search.owner for search in searches] == [0, 1, 1, 1]
    drawn = [search.sentence.options for search in searches[1:]]
    assert [options.sampling.seed for options in drawn if options.sampling] == [40, 41, 42]
    assert {options.num_hypotheses for options in drawn} == {1}
