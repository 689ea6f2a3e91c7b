"""The end of a decoder step: projection onto the vocabulary and choice of continuations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from xuanzang.export.operators.continuations import GROUP, best_continuations
from xuanzang.export.operators.projected_continuations import MATRIX, projected_continuations

Arrays = dict[str, np.ndarray]
OpenOperator = Callable[..., Any]
"""Opens one operator twice, as a kernel and as its function (`Operator` in conftest.py)."""


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def step_inputs(
    rng: np.random.Generator,
    batch: int,
    beam: int,
    *,
    width: int = 64,
    groups: int = 10,
    count: int = 8,
    banned: int = 0,
    edits: int = 0,
    required: int = 3,
) -> Arrays:
    vocabulary, edited = groups * GROUP, (batch, beam, edits)
    ids = np.stack([rng.permutation(vocabulary)[:edits] for _ in range(batch * beam)]).astype(np.int64)
    return {
        "x": rng.integers(0, 256, (batch, beam, width), dtype=np.uint8),
        "weight": rng.integers(-127, 128, (width, vocabulary), dtype=np.int8),
        "x_scale": np.array([0.02], np.float32),
        # Of logits beyond 16 floats have no digits left for the tolerance.
        "weight_scale": (0.001 + rng.random(vocabulary) / 10_000).astype(np.float32),
        "x_zero": rng.integers(0, 256, 1, dtype=np.uint8),
        "bias": normal(rng, vocabulary),
        "scores": normal(rng, batch, beam),
        "candidate_count": np.array([count]),
        "banned_ids": rng.permutation(vocabulary)[:banned].astype(np.int64),
        "edited_ids": ids.reshape(edited),
        "edit_penalties": 1 + rng.random(edited, np.float32),
        "edit_biases": normal(rng, *edited) * 10,
        "inspected_rows": rng.integers(0, batch * beam, 3),
        "required_ids": rng.integers(0, vocabulary, (3, required)),
    }


def opened(operator: OpenOperator, inputs: Arrays, *, threads: int = 1, constant: bool = True) -> Any:
    """Open the operator; the matrix is part of the graph, as in a bundle, or given to each run."""
    constants = {name: inputs[name] for name in MATRIX[1:] if constant}
    rest = {name: array for name, array in inputs.items() if name not in constants}
    calls = [best_continuations()]
    return operator(projected_continuations(), rest, threads=threads, calls=calls, constants=constants)


def given_to_runs(inputs: Arrays) -> Arrays:
    return {name: array for name, array in inputs.items() if name not in MATRIX[1:]}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.tuples(st.integers(1, 4), st.integers(1, 5)), st.booleans(), st.data())
def test_projected_continuations_are_their_function(
    operator: OpenOperator, seed: int, shape: tuple[int, int], constant: bool, data: st.DataObject
) -> None:
    sizes = {
        "width": st.sampled_from([1, 6, 64, 100]),
        "groups": st.integers(1, 40),
        "count": st.integers(1, 40),
        "banned": st.integers(0, 5),
        "edits": st.integers(0, 20),
        "required": st.integers(0, 4),
    }
    inputs = step_inputs(np.random.default_rng(seed), *shape, **data.draw(st.fixed_dictionaries(sizes)))
    opened(operator, inputs, constant=constant).check(given_to_runs(inputs) if constant else inputs)


def test_a_sentence_has_the_same_continuations_in_any_company(operator: OpenOperator) -> None:
    inputs = step_inputs(np.random.default_rng(5), 9, 3, width=256, groups=40, edits=4)
    step, runs = opened(operator, inputs), given_to_runs(inputs)
    together = step.run(runs)
    step.check_alone(together, runs)


@pytest.mark.parametrize("inspected", [0, 3])
def test_beam_positions_without_hypothesis_have_no_continuation_among_the_living(
    operator: OpenOperator, inspected: int
) -> None:
    inputs = step_inputs(np.random.default_rng(8), 5, 4, width=256, groups=40, count=8, edits=4)
    opened(operator, inputs).check_living(given_to_runs(inputs), inspected=inspected)


def test_of_several_edits_of_one_logit_the_last_counts(operator: OpenOperator) -> None:
    inputs = step_inputs(np.random.default_rng(6), 2, 2, edits=6)
    inputs["edited_ids"][...] = [7, 3, 7, 3, 3, 7]
    inputs["edit_penalties"][...], inputs["edit_biases"][...] = 1.0, [90, 70, 80, 60, 30, 20]
    inputs["required_ids"][...] = [3, 7, 5]
    opened(operator, inputs).check(given_to_runs(inputs))


@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan])
def test_logits_that_are_no_finite_numbers_still_give_pieces_that_exist(operator: OpenOperator, value: float) -> None:
    for edits in (5, 9 * GROUP):
        inputs = step_inputs(np.random.default_rng(2), 3, 4, groups=9, count=10, banned=2, edits=edits)
        inputs["edit_biases"][...] = value
        found = opened(operator, inputs).run(given_to_runs(inputs))
        assert found["candidate_ids"].shape == (3, 10)
        assert ((found["candidate_ids"] >= 0) & (found["candidate_ids"] < 9 * GROUP)).all()
        assert ((found["candidate_parents"] >= 0) & (found["candidate_parents"] < 4)).all()


def test_several_threads_find_the_same_continuations(operator: OpenOperator) -> None:
    inputs = step_inputs(np.random.default_rng(11), 16, 4, width=256, groups=60, edits=3)
    opened(operator, inputs, threads=2).check_equal(opened(operator, inputs), given_to_runs(inputs))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("candidate_count", lambda array: array * 0, "the number of continuations is not a positive number"),
        ("scores", lambda array: array[:, 1:], "there is not one score for each hypothesis"),
        ("x", lambda array: array[:, :, 1:], "x and columns differ in width"),
        ("edited_ids", lambda array: array + 10_000, "an edited piece does not exist"),
        ("edited_ids", lambda array: array[1:], "the edits are not of the hypotheses"),
        ("edit_penalties", lambda array: array[:, :, 1:], "an edit has no penalty or no bias"),
        ("inspected_rows", lambda array: array + 10_000, "an inspected hypothesis does not exist"),
        ("required_ids", lambda array: array + 10_000, "a required piece does not exist"),
        ("required_ids", lambda array: array[1:], "there are not required pieces for each inspected hypothesis"),
    ],
)
def test_wrong_steps_are_refused(
    operator: OpenOperator, name: str, change: Callable[[np.ndarray], np.ndarray], message: str
) -> None:
    if not operator.has_products:  # type: ignore[attr-defined]
        pytest.skip("these instructions have no kernel for it")
    inputs = step_inputs(np.random.default_rng(1), 2, 4, edits=2)
    step, runs = opened(operator, inputs), given_to_runs(inputs)
    with pytest.raises(InvalidArgument, match=f"ProjectedContinuations: {message}"):
        step.run(runs | {name: np.ascontiguousarray(change(runs[name]))})
