"""The end of a decoder step: projection onto the vocabulary, or onto few pieces of each sentence, and choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.kernels.conftest import Arrays, Change, OpenOperator, normal

from xuanzang.export.operators.continuations import GROUP, NEVER, best_continuations
from xuanzang.export.operators.products import chosen_logits
from xuanzang.export.operators.projected_continuations import (
    MATRIX,
    projected_continuations,
    shortlisted_continuations,
)

VOCABULARY = 1500
"""Ids of pieces of a shortlist; this one is of none."""


def projected_inputs(
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


def shortlisted_inputs(
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


@dataclass(frozen=True, kw_only=True)
class Step:
    """An operator, and how its inputs are made."""

    name: str
    functions: tuple[Callable[[], onnx.FunctionProto], ...]
    """Its own function, and those that it calls."""
    inputs: Callable[..., Arrays]
    constants: tuple[str, ...]
    """Inputs that are part of the graph in a bundle."""
    sizes: dict[str, Any]
    """Strategies of the sizes of its inputs."""
    wide: tuple[dict[str, int], ...]
    """Sizes of many pieces: of a batch of 9, of 5, and of 16."""

    def given_to_runs(self, inputs: Arrays) -> Arrays:
        return {name: array for name, array in inputs.items() if name not in self.constants}

    def opened(self, operator: OpenOperator, inputs: Arrays, *, threads: int = 1, constant: bool = True) -> Any:
        """Open the operator; the matrices are part of the graph, as in a bundle, or given to each run."""
        constants = {name: inputs[name] for name in self.constants if constant}
        rest = self.given_to_runs(inputs) if constant else inputs
        function, *calls = (each() for each in self.functions)
        return operator(function, rest, threads=threads, calls=calls, constants=constants)


ANY_STEP: dict[str, Any] = {
    "width": st.sampled_from([1, 6, 64, 100]),
    "count": st.integers(1, 40),
    "edits": st.integers(0, 20),
    "required": st.integers(0, 4),
}
PROJECTED = Step(
    name="ProjectedContinuations",
    functions=(projected_continuations, best_continuations),
    inputs=projected_inputs,
    constants=MATRIX[1:],
    sizes=ANY_STEP | {"groups": st.integers(1, 40), "banned": st.integers(0, 5)},
    wide=({"groups": 40}, {"groups": 40}, {"groups": 60}),
)
SHORTLISTED = Step(
    name="ShortlistedContinuations",
    functions=(shortlisted_continuations, chosen_logits, best_continuations),
    inputs=shortlisted_inputs,
    constants=(*MATRIX[1:], "columns", "scales", "biases", "common_ids"),
    sizes=ANY_STEP | {"common": st.integers(1, 20), "own": st.integers(1, 20)},
    wide=({"common": 16, "own": 8}, {"common": 16, "own": 16}, {"common": 24, "own": 22}),
)
of_both = pytest.mark.parametrize("kind", [PROJECTED, SHORTLISTED], ids=lambda kind: kind.name)


@of_both
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.tuples(st.integers(1, 4), st.integers(1, 8)), st.booleans(), st.data())
def test_continuations_are_their_function(
    operator: OpenOperator, kind: Step, seed: int, shape: tuple[int, int], constant: bool, data: st.DataObject
) -> None:
    inputs = kind.inputs(np.random.default_rng(seed), *shape, **data.draw(st.fixed_dictionaries(kind.sizes)))
    kind.opened(operator, inputs, constant=constant).check(kind.given_to_runs(inputs) if constant else inputs)


@of_both
def test_a_sentence_has_the_same_continuations_in_any_company(operator: OpenOperator, kind: Step) -> None:
    inputs = kind.inputs(np.random.default_rng(5), 9, 3, width=256, edits=4, **kind.wide[0])
    step, runs = kind.opened(operator, inputs), kind.given_to_runs(inputs)
    company = runs
    if kind is SHORTLISTED:  # with sentences whose sources suggest more pieces
        nothing = np.full((9, 8 * GROUP), VOCABULARY)
        company = runs | {"choices": np.concatenate([runs["choices"], nothing], axis=1)}
    step.check_alone(step.run(company), runs)


@of_both
@pytest.mark.parametrize("inspected", [0, 3])
def test_beam_positions_without_hypothesis_have_no_continuation_among_the_living(
    operator: OpenOperator, kind: Step, inspected: int
) -> None:
    inputs = kind.inputs(np.random.default_rng(8), 5, 4, width=256, count=8, edits=4, **kind.wide[1])
    kind.opened(operator, inputs).check_living(kind.given_to_runs(inputs), inspected=inspected)


def test_of_several_edits_of_one_logit_the_last_counts(operator: OpenOperator) -> None:
    inputs = projected_inputs(np.random.default_rng(6), 2, 2, edits=6)
    inputs["edited_ids"][...] = [7, 3, 7, 3, 3, 7]
    inputs["edit_penalties"][...], inputs["edit_biases"][...] = 1.0, [90, 70, 80, 60, 30, 20]
    inputs["required_ids"][...] = [3, 7, 5]
    PROJECTED.opened(operator, inputs).check(PROJECTED.given_to_runs(inputs))


@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan])
def test_logits_that_are_no_finite_numbers_still_give_pieces_that_exist(operator: OpenOperator, value: float) -> None:
    for edits in (5, 9 * GROUP):
        inputs = projected_inputs(np.random.default_rng(2), 3, 4, groups=9, count=10, banned=2, edits=edits)
        inputs["edit_biases"][...] = value
        found = PROJECTED.opened(operator, inputs).run(PROJECTED.given_to_runs(inputs))
        assert found["candidate_ids"].shape == (3, 10)
        assert ((found["candidate_ids"] >= 0) & (found["candidate_ids"] < 9 * GROUP)).all()
        assert ((found["candidate_parents"] >= 0) & (found["candidate_parents"] < 4)).all()


@of_both
def test_several_threads_find_the_same_continuations(operator: OpenOperator, kind: Step) -> None:
    inputs = kind.inputs(np.random.default_rng(11), 16, 4, width=256, edits=3, **kind.wide[2])
    kind.opened(operator, inputs, threads=2).check_equal(kind.opened(operator, inputs), kind.given_to_runs(inputs))


@pytest.mark.parametrize(
    ("kind", "name", "change", "message"),
    [
        (PROJECTED, "candidate_count", lambda array: array * 0, "the number of continuations is not a positive number"),
        (PROJECTED, "scores", lambda array: array[:, 1:], "there is not one score for each hypothesis"),
        (PROJECTED, "x", lambda array: array[:, :, 1:], "x and columns differ in width"),
        (PROJECTED, "edited_ids", lambda array: array + 10_000, "an edited piece does not exist"),
        (PROJECTED, "edited_ids", lambda array: array[1:], "the edits are not of the hypotheses"),
        (PROJECTED, "edit_penalties", lambda array: array[:, :, 1:], "an edit has no penalty or no bias"),
        (PROJECTED, "inspected_rows", lambda array: array + 10_000, "an inspected hypothesis does not exist"),
        (PROJECTED, "required_ids", lambda array: array + 10_000, "a required piece does not exist"),
        (
            PROJECTED,
            "required_ids",
            lambda array: array[1:],
            "there are not required pieces for each inspected hypothesis",
        ),
        (SHORTLISTED, "choices", lambda array: array + 10_000, "a piece does not exist"),
        (SHORTLISTED, "choices", lambda array: array - 10_000, "a piece does not exist"),
        (SHORTLISTED, "choices", lambda array: array[1:], "batches differ"),
        (SHORTLISTED, "scores", lambda array: array[:, 1:], "there is not one score for each hypothesis"),
        (SHORTLISTED, "x", lambda array: array[:, :, 1:], "x and columns differ in width"),
        (SHORTLISTED, "edited_ids", lambda array: array + 10_000, "an edited piece does not exist"),
        (SHORTLISTED, "required_ids", lambda array: array + 10_000, "a required piece does not exist"),
    ],
)
def test_wrong_steps_are_refused(fastest: OpenOperator, kind: Step, name: str, change: Change, message: str) -> None:
    if not fastest.has_products:  # type: ignore[attr-defined]
        pytest.skip("these instructions have no kernel for it")
    inputs = kind.inputs(np.random.default_rng(1), 2, 4, edits=2)
    step, runs = kind.opened(fastest, inputs), kind.given_to_runs(inputs)
    step.refuses(runs | {name: change(runs[name])}, message)


def test_an_id_is_needed_for_each_common_column(fastest: OpenOperator) -> None:
    if not fastest.has_products:  # type: ignore[attr-defined]
        pytest.skip("these instructions have no kernel for it")
    inputs = shortlisted_inputs(np.random.default_rng(1), 2, 4)
    step = SHORTLISTED.opened(fastest, inputs, constant=False)
    step.refuses(inputs | {"common_ids": inputs["common_ids"][1:]}, "there is not one id for each common column")
