"""The kernels between two decoder steps beside their oracle: the numpy code that runs without them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_options import search_options

from xuanzang.kernels import find_kernels
from xuanzang.kernels.step_functions import StepFunctions
from xuanzang.kernels.steps import AdvanceSlots, ContinueBest, SlotArrays
from xuanzang.server.engine.arrays import Order
from xuanzang.server.engine.decoding.beam_search import BeamSearch
from xuanzang.server.engine.decoding.search_state import DEAD_LIMIT, DEAD_SCORE, BeamArrays, Candidates
from xuanzang.server.engine.runtime.kv_cache import KeyValueCache
from xuanzang.server.engine.runtime.pages import PageShape
from xuanzang.server.engine.runtime.shapes import CacheShape

EOS = 2
SHAPE = CacheShape(
    past_names=("past_key_values.0.key",),
    cross_names=("cross_key_values.0.key",),
    page=PageShape(2, 4, 4),
    dtype=np.float32,
    device="cpu",
)


@pytest.fixture(scope="module")
def functions() -> StepFunctions:
    kernels = find_kernels()
    if kernels.library is None:
        pytest.skip(f"there are no kernels: {kernels.detail}")
    return StepFunctions(kernels.library)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 40))
def test_slots_are_those_of_numpy_as_rows_change(functions: StepFunctions, seed: int, beam: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    caches = [KeyValueCache(SHAPE, beam), KeyValueCache(SHAPE, beam, functions=functions)]
    count = 0
    for _ in range(steps):
        count = change_sentences(rng, caches, count)
        parents = rng.integers(0, beam, (count, beam))
        for cache in caches:
            cache.advance(parents)
        plain, ours = (cache.decoder_tensors.inputs for cache in caches)
        for name in ("visible", "slot_indices", "page_table", "page_owners"):
            np.testing.assert_array_equal(ours[name], plain[name], err_msg=name)


def change_sentences(rng: np.random.Generator, caches: list[KeyValueCache], count: int) -> int:
    """Let sentences leave and join now and then; return how many there are."""
    if count > 1 and rng.random() < 0.2:
        order = Order.of(np.sort(rng.permutation(count)[: count - 1]))
        for cache in caches:
            cache.select(order)
        count -= 1
    if not count or rng.random() < 0.2:
        length = int(rng.integers(1, 9))
        for cache in caches:
            cache.join(np.array([count]), np.array([length]), padded=length)
        count += 1
    return count


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 4), st.integers(1, 12))
def test_hypotheses_go_on_as_in_numpy(functions: StepFunctions, seed: int, beam: int, batch: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    searches = [BeamSearch(beam, start_id=0, eos_id=EOS), BeamSearch(beam, start_id=0, eos_id=EOS, functions=functions)]
    limits = map(int, rng.integers(1, 9, batch))
    options = [search_options(beam_size=beam, max_target_length=limit) for limit in limits]
    for search in searches:
        search.join(np.arange(batch), options)
    for _ in range(steps):
        candidates, attention = made_candidates(rng, len(searches[0]), beam)
        plain, ours = (search.advance(candidates, attention) for search in searches)
        assert ours == plain
        for mine, oracle in zip(searches[1].beams, searches[0].beams, strict=True):
            np.testing.assert_array_equal(mine, oracle)
        left = {index for index, _ in plain}
        order = Order.of(np.array([index for index in range(len(searches[0])) if index not in left], dtype=np.int64))
        for search in searches:
            search.select(order)
        if not len(order.kept):
            return


def made_candidates(rng: np.random.Generator, batch: int, beam: int) -> tuple[Candidates, np.ndarray]:
    scores = -np.sort(rng.random((batch, 2 * beam), dtype=np.float32), axis=1)
    scores[rng.random(scores.shape) < 0.1] = DEAD_SCORE
    scores = -np.sort(-scores, axis=1)
    ids, parents = rng.integers(0, 8, (batch, 2 * beam)), rng.integers(0, beam, (batch, 2 * beam))
    return Candidates(scores, ids, parents), np.zeros((batch, beam, 1), np.float32)


def arrays(**changes: np.ndarray) -> SlotArrays:
    """Return those of a sentence with two hypotheses, two logical pages and two heads, and a page that is free."""
    return SlotArrays(
        parents=np.zeros((1, 2), np.int64),
        visible=np.zeros((1, 2, 8), bool),
        page_table=np.full((1, 2), -1),
        page_owners=np.zeros((3, 2), np.int64),
        free_pages=np.array([2, 0, 1]),
        free_count=np.array([1]),
        slot_indices=np.zeros((1, 2, 2, 3), np.int64),
    )._replace(**changes)


def test_a_parent_that_does_not_exist_is_refused_with_nothing_changed(functions: StepFunctions) -> None:
    before, after = arrays(), arrays(parents=np.array([[0, 2]]))
    assert AdvanceSlots(functions, page_slots=4)(after) is None
    for old, new in zip(before[1:], after[1:], strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    "changes",
    [
        {"parents": np.zeros((1, 2), np.int32)},
        {"parents": np.zeros((1, 3), np.int64)},
        {"visible": np.zeros((1, 2, 16), bool)[..., ::2]},
        {"free_pages": np.zeros(2, np.int64)},
        {"free_count": np.zeros((), np.int64)},
    ],
)
def test_arrays_of_another_shape_or_type_are_refused(functions: StepFunctions, changes: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="is not a contiguous array of"):
        AdvanceSlots(functions, page_slots=4)(arrays(**changes))


def test_fewer_candidates_than_hypotheses_are_refused(functions: StepFunctions) -> None:
    continue_best = ContinueBest(functions, eos_id=EOS, dead=DEAD_LIMIT)
    few, _ = made_candidates(np.random.default_rng(0), 1, 1)
    beams = BeamArrays.empty(4).extended(1)
    with pytest.raises(ValueError, match="2 candidates are fewer than 4 hypotheses"):
        continue_best(*few, *beams)
