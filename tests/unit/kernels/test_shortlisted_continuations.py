"""The end of a decoder step in which each sentence chooses among few pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from xuanzang.export.operators.continuations import GROUP, NEVER, best_continuations
from xuanzang.export.operators.products import chosen_logits
from xuanzang.export.operators.projected_continuations import MATRIX, shortlisted_continuations

VOCABULARY = 1500
"""Ids of pieces; this one is of none."""
CONSTANTS = (*MATRIX[1:], "columns", "scales", "biases", "common_ids")

Arrays = dict[str, np.ndarray]
OpenOperator = Callable[..., Any]
"""Opens one operator twice, as a kernel and as its function (`Operator` in conftest.py)."""


def matrix(rng: np.random.Generator, width: int, common: np.ndarray) -> Arrays:
    """Return one matrix of all pieces, and the columns of the common ones as a product of integers takes them."""
    integers = rng.integers(-127, 128, (VOCABULARY + 1, width), dtype=np.int8)
    scale = (0.001 + rng.random(VOCABULARY + 1) / 10_000).astype(np.float32)
    bias = np.append(rng.standard_normal(VOCABULARY), NEVER).astype(np.float32)
    x_scale, x_zero = np.float32(0.02), rng.integers(0, 256, dtype=np.uint8)
    sums = integers.sum(axis=1, dtype=np.int32)
    return {
        "weight": np.ascontiguousarray(integers[common].T),
        "x_scale": np.array([x_scale]),
        "weight_scale": scale[common],
        "x_zero": np.array([x_zero]),
        "bias": bias[common],
        "columns": integers,
        "scales": scale * x_scale,
        "biases": (bias - x_zero * scale * x_scale * sums).astype(np.float32),
        "common_ids": common,
    }


def step_inputs(
    rng: np.random.Generator,
    batch: int,
    beam: int,
    *,
    width: int = 64,
    common: int = 3,
    own: int = 2,
    count: int = 8,
    edits: int = 0,
    required: int = 3,
) -> Arrays:
    common, own, edited = common * GROUP, own * GROUP, (batch, beam, edits)
    ids = np.stack([rng.permutation(VOCABULARY)[: common + own] for _ in range(batch)])
    ids[:, :common] = ids[0, :common]
    places = np.stack([rng.permutation(common + own)[:edits] for _ in range(batch * beam)]).astype(np.int64)
    return {
        "x": rng.integers(0, 256, (batch, beam, width), dtype=np.uint8),
        **matrix(rng, width, ids[0, :common]),
        "choices": np.ascontiguousarray(ids[:, common:]),
        "scores": rng.standard_normal((batch, beam)).astype(np.float32),
        "candidate_count": np.array([count]),
        "banned_ids": np.zeros(0, np.int64),
        "edited_ids": places.reshape(edited),
        "edit_penalties": 1 + rng.random(edited, np.float32),
        "edit_biases": rng.standard_normal(edited).astype(np.float32) * 10,
        "inspected_rows": rng.integers(0, batch * beam, 3),
        "required_ids": rng.integers(0, common + own, (3, required)),
    }


def opened(operator: OpenOperator, inputs: Arrays, *, threads: int = 1, constant: bool = True) -> Any:
    """Open the operator; the matrices are part of the graph, as in a bundle, or given to each run."""
    constants = {name: inputs[name] for name in CONSTANTS if constant}
    calls = [chosen_logits(), best_continuations()]
    rest = given_to_runs(inputs) if constant else inputs
    return operator(shortlisted_continuations(), rest, threads=threads, calls=calls, constants=constants)


def given_to_runs(inputs: Arrays) -> Arrays:
    return {name: array for name, array in inputs.items() if name not in CONSTANTS}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.tuples(st.integers(1, 4), st.integers(1, 8)), st.booleans(), st.data())
def test_shortlisted_continuations_are_their_function(
    operator: OpenOperator, seed: int, shape: tuple[int, int], constant: bool, data: st.DataObject
) -> None:
    sizes = {
        "width": st.sampled_from([1, 6, 64, 100]),
        "common": st.integers(1, 20),
        "own": st.integers(1, 20),
        "count": st.integers(1, 40),
        "edits": st.integers(0, 20),
        "required": st.integers(0, 4),
    }
    inputs = step_inputs(np.random.default_rng(seed), *shape, **data.draw(st.fixed_dictionaries(sizes)))
    opened(operator, inputs, constant=constant).check(given_to_runs(inputs) if constant else inputs)


def test_a_sentence_has_the_same_continuations_in_any_company(operator: OpenOperator) -> None:
    inputs = step_inputs(np.random.default_rng(5), 9, 3, width=256, common=16, own=8, edits=4)
    step, runs = opened(operator, inputs), given_to_runs(inputs)
    # Beside others whose sources suggest more pieces.
    nothing = np.full((9, 8 * GROUP), VOCABULARY)
    together = step.run(runs | {"choices": np.concatenate([runs["choices"], nothing], axis=1)})
    step.check_alone(together, runs)


@pytest.mark.parametrize("inspected", [0, 3])
def test_beam_positions_without_hypothesis_have_no_continuation_among_the_living(
    operator: OpenOperator, inspected: int
) -> None:
    inputs = step_inputs(np.random.default_rng(8), 5, 4, width=256, common=16, own=16, count=8, edits=4)
    opened(operator, inputs).check_living(given_to_runs(inputs), inspected=inspected)


def test_several_threads_find_the_same_continuations(operator: OpenOperator) -> None:
    inputs = step_inputs(np.random.default_rng(11), 16, 4, width=256, common=24, own=22, edits=3)
    opened(operator, inputs, threads=2).check_equal(opened(operator, inputs), given_to_runs(inputs))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("choices", lambda array: array + 10_000, "a piece does not exist"),
        ("choices", lambda array: array - 10_000, "a piece does not exist"),
        ("choices", lambda array: array[1:], "batches differ"),
        ("scores", lambda array: array[:, 1:], "there is not one score for each hypothesis"),
        ("x", lambda array: array[:, :, 1:], "x and columns differ in width"),
        ("edited_ids", lambda array: array + 10_000, "an edited piece does not exist"),
        ("required_ids", lambda array: array + 10_000, "a required piece does not exist"),
    ],
)
def test_wrong_steps_are_refused(
    operator: OpenOperator, name: str, change: Callable[[np.ndarray], np.ndarray], message: str
) -> None:
    if not operator.has_products:  # type: ignore[attr-defined]
        pytest.skip("these instructions have no kernel for it")
    inputs = step_inputs(np.random.default_rng(1), 2, 4, edits=2)
    step, runs = opened(operator, inputs), given_to_runs(inputs)
    with pytest.raises(InvalidArgument, match=f"ShortlistedContinuations: {message}"):
        step.run(runs | {name: np.ascontiguousarray(change(runs[name]))})


def test_an_id_is_needed_for_each_common_column(operator: OpenOperator) -> None:
    if not operator.has_products:  # type: ignore[attr-defined]
        pytest.skip("these instructions have no kernel for it")
    inputs = step_inputs(np.random.default_rng(1), 2, 4)
    step = opened(operator, inputs, constant=False)
    with pytest.raises(InvalidArgument, match="there is not one id for each common column"):
        step.run(inputs | {"common_ids": inputs["common_ids"][1:]})
