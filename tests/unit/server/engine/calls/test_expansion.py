from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
from search_options import search_options

from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.calls.expansion import continuations, draws, openings
from xuanzang.server.engine.calls.rendering import PlannedSearch, SentenceRenderer
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis, TokenDetails
from xuanzang.server.engine.models.loaded import open_codec
from xuanzang.server.engine.types import FinishReason, SamplingOptions

OPTIONS = search_options(num_hypotheses=3, length_penalty=0.5, max_target_length=9, prefix_ids=(7, 8))


@pytest.fixture(scope="session")
def renderer(repository_template: Path) -> SentenceRenderer:
    return SentenceRenderer(codec=open_codec(load_bundle(repository_template / "small" / "1")), source_spans=[(0, 1)])


def planned(renderer: SentenceRenderer, options: SearchOptions = OPTIONS) -> PlannedSearch:
    return PlannedSearch(Sentence(source_ids=[5, 6, 2], options=options), renderer)


def hypothesis(*target_ids: int, score: float, finished: bool) -> TargetHypothesis:
    count = len(target_ids) + finished
    return TargetHypothesis(target_ids=list(target_ids), score=score, token_count=count, finished=finished)


def test_openings_are_as_many_as_alternatives_and_one_token_longer_than_the_prefix(renderer: SentenceRenderer) -> None:
    [search] = openings([planned(renderer)])
    options = search.sentence.options
    assert (options.decoding.beam_size, options.decoding.num_hypotheses, options.max_target_length) == (3, 3, 3)
    assert (options.prefix_ids, options.decoding.length_penalty) == ((7, 8), 0.0)


def test_each_opening_is_continued_by_a_search_that_is_forced_to_begin_with_it(renderer: SentenceRenderer) -> None:
    found = [hypothesis(7, 8, 9, score=-0.5, finished=False), hypothesis(7, 8, 4, score=-1.5, finished=False)]
    continued, ended = continuations([planned(renderer)], [found])
    options = [search.sentence.options for search in continued.searches]
    assert [forced.prefix_ids for forced in options] == [(7, 8, 9), (7, 8, 4)]
    for forced in options:
        decoding = dataclasses.replace(forced.decoding, num_hypotheses=3)
        assert dataclasses.replace(forced, prefix_ids=(7, 8), decoding=decoding) == OPTIONS
    assert ended == []


def test_an_opening_that_has_ended_is_an_alternative_scored_as_others_are(renderer: SentenceRenderer) -> None:
    continued, [(owner, ended)] = continuations([planned(renderer)], [[hypothesis(7, 8, score=-1.2, finished=True)]])
    assert continued.searches == []
    assert owner == 0
    assert ended.finish_reason is FinishReason.END_OF_SENTENCE
    assert ended.score == pytest.approx(-1.2 / math.sqrt(3))


def test_the_score_of_an_alternative_counts_its_forced_token(renderer: SentenceRenderer) -> None:
    opening = hypothesis(7, 8, 9, score=-0.5, finished=False)
    (_, [search]), _ = continuations([planned(renderer)], [[opening]])
    # The forced tokens were free: of 4 tokens and an end only the last two have a score.
    forced = TargetHypothesis(
        target_ids=[7, 8, 9, 3],
        score=-1.0 / math.sqrt(5),
        token_count=5,
        finished=True,
        details=TokenDetails([0.0, 0.0, 0.0, -0.4, -0.6], [0] * 5, 0.0),
    )
    rendered = search.renderer.render(search.sentence, forced, cut=FinishReason.MAX_LENGTH)
    scores = [token.score for token in rendered.tokens]
    assert scores == [0.0, 0.0, -0.5, -0.4, -0.6]
    assert rendered.score == pytest.approx(sum(scores) / math.sqrt(5))


def test_a_hypothesis_of_an_ordinary_search_keeps_its_score(renderer: SentenceRenderer) -> None:
    search = planned(renderer)
    found = hypothesis(1, 2, score=-1.0, finished=True)
    assert search.renderer.render(search.sentence, found, cut=FinishReason.MAX_LENGTH).score == -1.0


def test_each_draw_has_a_seed_of_its_own_and_one_hypothesis(renderer: SentenceRenderer) -> None:
    sampling = SamplingOptions(top_k=5, top_p=0.9, temperature=1.0, seed=40)
    sampled = search_options(num_hypotheses=3, beam_size=1, sampling=sampling)
    owners, searches = draws([planned(renderer, sampled)] * 2, sampling)
    assert owners == [0, 0, 0, 1, 1, 1]
    drawn = [search.sentence.options.decoding for search in searches]
    assert [decoding.sampling.seed for decoding in drawn if decoding.sampling] == 2 * [40, 41, 42]
    assert {decoding.num_hypotheses for decoding in drawn} == {1}
