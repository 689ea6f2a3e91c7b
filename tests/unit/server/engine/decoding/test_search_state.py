"""The tokens of hypotheses are those that copying them at every step would give."""

from __future__ import annotations

from collections import Counter
from itertools import takewhile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_options import search_options

from xuanzang.server.engine.arrays import Order
from xuanzang.server.engine.decoding.hypotheses import SearchOptions
from xuanzang.server.engine.decoding.logit_edits import LogitEdit, hypothesis_edits, stack
from xuanzang.server.engine.decoding.search_state import Candidate, History, Sampler
from xuanzang.server.engine.types import SamplingOptions

BEAM = 3
Copies = list[list[list[int]]]
"""Tokens of each hypothesis of each sentence."""


def advance(history: History, copies: Copies, random: np.random.Generator) -> Copies:
    """Take a step that gives every hypothesis a token; return the tokens that they have then."""
    parents = random.integers(0, BEAM, (len(copies), BEAM))
    # As in a search, hypotheses of one parent differ.
    ids = random.permuted(np.tile(np.arange(50), (len(copies), 1)), axis=1)[:, :BEAM]
    copies = [
        [[*old[parent], token] for parent, token in zip(*row, strict=True)]
        for old, *row in zip(copies, parents.tolist(), ids.tolist(), strict=True)
    ]
    history.add(ids, parents, np.array([[len(old[0])] for old in copies]))
    return copies


def common(texts: list[list[int]]) -> list[int]:
    same = takewhile(lambda tokens: len(set(tokens)) == 1, zip(*texts, strict=True))
    return [tokens[0] for tokens in same]


@given(
    plan=st.lists(st.sampled_from(("step", "step", "many steps", "join", "leave")), max_size=12), seed=st.integers(0)
)
def test_tokens_are_found_by_going_back_whoever_comes_and_goes(plan: list[str], seed: int) -> None:
    random = np.random.default_rng(seed)
    history = History(BEAM)
    history.extend(1)
    copies: Copies = [[[]] * BEAM]
    for event in plan:
        if event == "join":
            history.extend(1)
            copies.append([[]] * BEAM)
        elif event == "leave" and len(copies) > 1:
            order = random.permutation(len(copies))[1:]
            history.select(Order.of(order))
            copies = [copies[row] for row in order]
        for _ in range({"step": 1, "many steps": 40}.get(event, 0)):
            copies = advance(history, copies, random)
        for row, texts in enumerate(copies):
            count = len(texts[0])
            assert [history.tokens(row, place, count) for place in range(BEAM)] == texts
            assert history.shared(row, range(BEAM), count) == common(texts)


def test_the_tokens_of_a_hypothesis_that_is_outdone_can_be_found_later() -> None:
    history = History(BEAM)
    history.extend(1)
    random = np.random.default_rng(0)
    before = advance(history, [[[]] * BEAM], random)
    copies = before
    for _ in range(50):
        copies = advance(history, copies, random)
    assert [history.tokens(0, place, 1, ago=50) for place in range(BEAM)] == before[0]


CANDIDATES: list[Candidate] = [(float(np.log(p)), token, 0) for token, p in enumerate((0.5, 0.25, 0.15, 0.1))]


def draws(count: int, *, top_k: int = 4, top_p: float = 1.0, temperature: float = 1.0, seed: int = 1) -> list[int]:
    sampler = Sampler(SamplingOptions(top_k=top_k, top_p=top_p, temperature=temperature, seed=seed))
    return [sampler.choose(CANDIDATES)[0][1] for _ in range(count)]


def test_tokens_are_drawn_as_often_as_their_probability_says() -> None:
    counts = Counter(draws(4000))
    for token, probability in enumerate((0.5, 0.25, 0.15, 0.1)):
        assert counts[token] / 4000 == pytest.approx(probability, abs=0.03)


@pytest.mark.parametrize(
    ("limits", "possible"),
    [({"top_k": 2}, {0, 1}), ({"top_p": 0.5}, {0}), ({"top_p": 0.6}, {0, 1}), ({"top_k": 1, "temperature": 9.0}, {0})],
)
def test_only_the_likeliest_are_drawn(limits: dict[str, float], possible: set[int]) -> None:
    assert set(draws(300, **limits)) == possible  # type: ignore[arg-type]


def test_a_low_temperature_prefers_the_best_and_a_high_one_evens_out() -> None:
    cold, hot = (Counter(draws(1000, temperature=temperature))[0] for temperature in (0.2, 5.0))
    assert cold > 950
    assert hot < 400
    assert Sampler(SamplingOptions(top_k=4, top_p=1.0, temperature=1.0, seed=0)).choose([]) == []


EOS = 2
TOKENS = st.lists(st.integers(3, 6), max_size=12)


def forbidden(wanted: SearchOptions, tokens: list[int]) -> set[int]:
    edits = hypothesis_edits(wanted, tokens, eos_id=EOS)
    return {token for token, edit in edits.items() if edit.bias < -1e8}


def ngrams(tokens: list[int], size: int) -> list[tuple[int, ...]]:
    return [tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1)]


@given(tokens=TOKENS, size=st.integers(1, 4))
def test_a_token_is_forbidden_just_when_it_would_repeat_an_ngram(tokens: list[int], size: int) -> None:
    found = forbidden(search_options(no_repeat_ngram_size=size), tokens)
    repeating = {
        token
        for token in range(3, 7)
        if ngrams([*tokens, token], size)[-1:] and ngrams([*tokens, token], size)[-1] in ngrams(tokens, size)
    }
    assert found == repeating


@given(tokens=TOKENS, sequences=st.lists(st.lists(st.integers(3, 6), min_size=1, max_size=3).map(tuple), max_size=4))
def test_a_token_is_forbidden_where_it_ends_a_sequence(tokens: list[int], sequences: list[tuple[int, ...]]) -> None:
    found = forbidden(search_options(suppressed_sequences=tuple(sequences)), tokens)
    assert found == {t for t in range(3, 7) if any(tuple([*tokens, t][-len(s) :]) == s for s in sequences)}


@given(tokens=TOKENS, least=st.integers(0, 12))
def test_the_end_is_forbidden_below_the_least_length(tokens: list[int], least: int) -> None:
    assert (EOS in forbidden(search_options(min_target_length=least), tokens)) == (len(tokens) < least)


def test_a_prefix_is_forced_token_by_token_and_frees_the_rest() -> None:
    wanted = search_options(prefix_ids=(5, 6), repetition_penalty=2.0)
    assert [*hypothesis_edits(wanted, [], eos_id=EOS)] == [5]
    assert [*hypothesis_edits(wanted, [5], eos_id=EOS)] == [6]
    assert hypothesis_edits(wanted, [5, 6], eos_id=EOS) == {5: LogitEdit(penalty=2.0), 6: LogitEdit(penalty=2.0)}


@given(
    edits=st.dictionaries(
        st.tuples(st.integers(0, 2), st.integers(0, 1)),
        st.dictionaries(st.integers(0, 9), st.builds(LogitEdit, penalty=st.just(2.0), bias=st.just(-1.0)), max_size=4),
        min_size=1,
    )
)
def test_stacked_edits_change_what_they_name_alone(edits: dict[tuple[int, int], dict[int, LogitEdit]]) -> None:
    stacked = stack(edits, batch=3, beam=2)
    logits = np.ones((3, 2, 10), np.float32)
    values = np.take_along_axis(logits, stacked.edited_ids, axis=2) / stacked.edit_penalties + stacked.edit_biases
    np.put_along_axis(logits, stacked.edited_ids, values, axis=2)
    expected = np.ones((3, 2, 10), np.float32)
    for place, changes in edits.items():
        expected[(*place, list(changes))] = -0.5
    assert (logits == expected).all()
