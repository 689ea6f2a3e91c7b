"""What becomes of a sentence: searches of alternatives, its terms, and its text as it grows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_options import search_options

from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.calls.expansion import continuations, draws, openings
from xuanzang.server.engine.calls.kept_terms import SentenceTerms, plan_terms
from xuanzang.server.engine.calls.rendering import PlannedSearch, SentenceRenderer, SentenceResult
from xuanzang.server.engine.calls.results import TextStreamer, joined
from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence, TargetHypothesis, TokenDetails
from xuanzang.server.engine.models.loaded import UNCONSTRAINED, open_codec
from xuanzang.server.engine.scheduling.request import SentenceTimeline
from xuanzang.server.engine.types import FinishReason, Hypothesis, SamplingOptions
from xuanzang.text.codec import Segment, TextCodec
from xuanzang.text.terminology.terms import GlossaryEntry, TermIndex, Terms
from xuanzang.text.types import GlossaryOutcome, ProtectedPattern

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
    # One of an ordinary search keeps its score.
    ordinary, found = planned(renderer), hypothesis(1, 2, score=-1.0, finished=True)
    assert ordinary.renderer.render(ordinary.sentence, found, cut=FinishReason.MAX_LENGTH).score == -1.0


def test_each_draw_has_a_seed_of_its_own_and_one_hypothesis(renderer: SentenceRenderer) -> None:
    sampling = SamplingOptions(top_k=5, top_p=0.9, temperature=1.0, seed=40)
    sampled = search_options(num_hypotheses=3, beam_size=1, sampling=sampling)
    owners, searches = draws([planned(renderer, sampled)] * 2, sampling)
    assert owners == [0, 0, 0, 1, 1, 1]
    drawn = [search.sentence.options.decoding for search in searches]
    assert [decoding.sampling.seed for decoding in drawn if decoding.sampling] == 2 * [40, 41, 42]
    assert {decoding.num_hypotheses for decoding in drawn} == {1}


TEXT = "我有一只猫和两只狗。"


@pytest.fixture(scope="module")
def codec(tiny_bundle_repository: Path) -> TextCodec:
    return open_codec(load_bundle(tiny_bundle_repository / "tiny" / "1"))


def terms_of(
    codec: TextCodec, text: str, *, in_source: bool = True, max_tokens: int = 50, **targets: str
) -> SentenceTerms:
    entries = [GlossaryEntry(source=source, targets=(target,)) for source, target in targets.items()]
    terms = Terms(indices=(TermIndex(entries),), patterns=(ProtectedPattern.NUMBER,), fields=("glossary_entries",))
    [segment] = codec.split(text)
    found = terms.find(text)
    return plan_terms(
        found, codec, segment=segment, start=0, suppressed_texts=(), max_tokens=max_tokens, in_source=in_source
    )


def required(terms: SentenceTerms) -> tuple[bool, bool]:
    """Return whether the first search requires phrases, and whether another would."""
    constraints = terms.added_to(UNCONSTRAINED)
    return constraints.phrases is not None, constraints.expected_phrases is not None


@pytest.mark.parametrize(
    ("text", "in_source", "targets", "source", "is_required"),
    [
        # Terms in the source are required of a second search only.
        (TEXT, True, {"猫": "tiger", "狗": "horse"}, "我有一只 tiger 和两只 horse。", (False, True)),
        (TEXT, False, {"猫": "tiger"}, None, (True, False)),
        # Protected texts are in the source already.
        ("我有12只猫。", True, {}, None, (False, True)),
        ("我有12只猫。", False, {}, None, (False, True)),
    ],
)
def test_terms_are_put_into_the_source_if_the_model_reads_them_there(
    codec: TextCodec, text: str, in_source: bool, targets: Any, source: str | None, is_required: tuple[bool, bool]
) -> None:
    terms = terms_of(codec, text, in_source=in_source, **targets)
    assert (terms.source and terms.source.text) == source
    assert not terms.source or terms.source_ids == tuple(codec.encode(terms.source.text))
    assert required(terms) == is_required


def test_a_term_that_no_source_can_hold_is_required_at_once(codec: TextCodec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "can_read", lambda text: text != "tiger")
    terms = terms_of(codec, TEXT, 猫="tiger", 狗="horse")
    assert terms.source is not None
    assert terms.source.text == "我有一只猫和两只 horse。"
    assert required(terms) == (True, False)


def test_a_sentence_that_terms_make_too_long_stays_as_it_is(codec: TextCodec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "max_source_length", len(codec.encode(TEXT)))
    terms = terms_of(codec, TEXT, 猫="tiger tiger tiger tiger")
    assert terms.source is None
    assert required(terms) == (True, False)


def test_a_term_that_is_not_kept_is_not_put_into_the_source(codec: TextCodec) -> None:
    terms = terms_of(codec, TEXT, max_tokens=1, 猫="tiger tiger tiger")
    assert (terms.source, terms.phrases) == (None, None)
    assert terms.target is not None
    assert [reason for _, reason in terms.target.found] == [GlossaryOutcome.NO_ROOM]
    assert required(terms) == (False, False)


@pytest.fixture(scope="session")
def plain(repository_template: Path) -> TextCodec:
    return open_codec(load_bundle(repository_template / "small" / "1"))


def spoken(text: str) -> list[Hypothesis]:
    return [Hypothesis(text=text, score=0.0, token_count=1, finish_reason=FinishReason.END_OF_SENTENCE)]


def result(text: str) -> SentenceResult:
    timeline = SentenceTimeline(
        queued_at=1.0, taken_at=2.0, encoded_at=3.0, finished_at=4.0, worker=0, batch_size=1, steps=5
    )
    return SentenceResult([], spoken(text), timeline)


def segments_of(parts: Sequence[str]) -> list[Segment]:
    return [Segment(text=part, source_ids=() if part.isspace() else (5, 2)) for part in parts]


texts = st.text(alphabet="ab é🐈", max_size=8)
events = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 8), st.booleans()), max_size=30
)  # sentence, characters known, whether it is done


@given(st.lists(texts, min_size=4, max_size=4), events, st.permutations(range(4)))
def test_any_order_of_events_emits_a_growing_beginning_of_the_text(
    plain: TextCodec, translated: list[str], happens: list[tuple[int, int, bool]], ends: list[int]
) -> None:
    segments = segments_of([" ", "A.", "B.", "\n", "C.", "D.", "\n "])
    [whole] = joined(segments, iter([spoken(text) for text in translated]), plain)
    emitted: list[str] = []
    streamer = TextStreamer(segments, plain, emitted.append)
    known, done = [0] * 4, [False] * 4
    for position, length, finished in [*happens, *((end, 8, True) for end in ends)]:
        if done[position] or (length <= known[position] and not finished):
            continue
        known[position], done[position] = length, finished
        if finished:
            streamer.on_result(position, result(translated[position]))
        else:
            streamer.on_prefix(position, translated[position][:length])
        assert whole.text.startswith("".join(emitted))
    assert "".join(emitted) == whole.text
    assert all(emitted)


def test_a_character_is_emitted_once_all_of_its_bytes_are_there(plain: TextCodec) -> None:
    emitted: list[str] = []
    streamer = TextStreamer(segments_of(["A."]), plain, emitted.append)
    streamer.on_prefix(0, "a \ufffd")
    streamer.on_prefix(0, "a \ufffd\ufffd")
    streamer.on_prefix(0, "a 🐈")
    assert emitted == ["a ", "🐈"]


def test_a_text_without_sentences_emits_nothing(plain: TextCodec) -> None:
    emitted: list[str] = []
    TextStreamer(segments_of([" ", "\n"]), plain, emitted.append).on_prefix(0, "never")
    assert emitted == []
