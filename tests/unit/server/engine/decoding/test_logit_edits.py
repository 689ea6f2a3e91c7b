from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from search_options import search_options

from xuanzang.server.engine.decoding.hypotheses import SearchOptions
from xuanzang.server.engine.decoding.logit_edits import LogitEdit, hypothesis_edits, stack

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
def test_a_token_is_forbidden_just_where_it_ends_a_suppressed_sequence(
    tokens: list[int], sequences: list[tuple[int, ...]]
) -> None:
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
def test_stacked_edits_change_what_they_name_alone(
    edits: dict[tuple[int, int], dict[int, LogitEdit]],
) -> None:
    stacked = stack(edits, batch=3, beam=2)
    logits = np.ones((3, 2, 10), np.float32)
    values = np.take_along_axis(logits, stacked.edited_ids, axis=2) / stacked.edit_penalties + stacked.edit_biases
    np.put_along_axis(logits, stacked.edited_ids, values, axis=2)
    expected = np.ones((3, 2, 10), np.float32)
    for place, changes in edits.items():
        expected[(*place, list(changes))] = -0.5
    assert (logits == expected).all()
