"""The best continuations of each sentence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.kernels.conftest import Arrays, OpenOperator, normal

from xuanzang.export.operators.continuations import GROUP, best_continuations


def choice_inputs(
    rng: np.random.Generator, batch: int, beam: int, *, groups: int = 5, count: int = 8, banned: int = 0
) -> Arrays:
    vocabulary = groups * GROUP
    return {
        "logits": 4 * normal(rng, batch, beam, vocabulary),
        "scores": normal(rng, batch, beam),
        "count": np.array([count]),
        "banned_ids": rng.permutation(vocabulary)[:banned].astype(np.int64),
    }


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.tuples(st.integers(1, 4), st.integers(1, 9)), st.data())
def test_best_continuations_are_their_function(
    operator: OpenOperator, seed: int, shape: tuple[int, int], data: st.DataObject
) -> None:
    sizes = {"groups": st.integers(1, 20), "count": st.integers(1, 40), "banned": st.integers(0, 5)}
    inputs = choice_inputs(np.random.default_rng(seed), *shape, **data.draw(st.fixed_dictionaries(sizes)))
    operator(best_continuations(), inputs).check(inputs)


def test_best_continuations_are_those_of_the_whole_vocabulary(operator: OpenOperator) -> None:
    inputs = choice_inputs(np.random.default_rng(3), 2, 4, groups=300, count=10)
    found = operator(best_continuations(), inputs).run(inputs)
    logits = inputs["logits"].astype(np.float64)
    totals = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True)) + inputs["scores"][:, :, None]
    flat = totals.reshape(2, -1)
    best = np.argsort(-flat, axis=1)[:, :10]
    np.testing.assert_allclose(found["best_scores"], np.take_along_axis(flat, best, axis=1), atol=1e-5)
    assert (found["best_parents"] == best // logits.shape[2]).all()
    assert (found["best_ids"] == best % logits.shape[2]).all()


@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan])
def test_logits_that_are_no_finite_numbers_still_give_pieces_that_exist(operator: OpenOperator, value: float) -> None:
    inputs = choice_inputs(np.random.default_rng(2), 3, 4, groups=9, count=10, banned=2)
    choose = operator(best_continuations(), inputs)
    for share in (0.5, 0.99, 1.0):
        broken = np.random.default_rng(4).random(inputs["logits"].shape) < share
        found = choose.run(inputs | {"logits": np.where(broken, np.float32(value), inputs["logits"])})
        assert found["best_ids"].shape == (3, 10)
        assert ((found["best_ids"] >= 0) & (found["best_ids"] < 9 * GROUP)).all()
        assert ((found["best_parents"] >= 0) & (found["best_parents"] < 4)).all()
    if value == -np.inf:  # nothing is left to choose
        assert (found["best_scores"] < -1e8).all()


def test_a_wrong_number_of_continuations_is_refused(fastest: OpenOperator) -> None:
    inputs = choice_inputs(np.random.default_rng(1), 2, 4)
    choose = fastest(best_continuations(), inputs)
    choose.refuses(inputs | {"count": np.array([0])}, "the number of continuations is not a positive")
    choose.refuses(inputs | {"scores": inputs["scores"][:, 1:]}, "there is not one score for each hypothesis")


def test_several_threads_find_the_same_continuations(operator: OpenOperator) -> None:
    inputs = choice_inputs(np.random.default_rng(11), 8, 4, groups=300)
    operator(best_continuations(), inputs, threads=2).check_equal(operator(best_continuations(), inputs), inputs)
