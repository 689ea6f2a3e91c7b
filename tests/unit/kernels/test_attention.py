"""Attention over pages, to the history and to the source."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.kernels.conftest import Arrays, Change, OpenOperator, normal

from xuanzang.export.operators.attention import cross_attention, first_head_attention, paged_attention
from xuanzang.export.tensors import PAGE_SLOTS

shapes = st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 3), st.sampled_from([1, 5, 16, 24, 64]))
"""Sentences, hypotheses, heads and the size of a head: whole vectors, parts of them, and both."""


def paged(rng: np.random.Generator, held: list[int], entries: int) -> tuple[np.ndarray, np.ndarray]:
    """Return page_table and page_owners of sentences that hold some pages each, in any order, beside two free ones."""
    pages = sum(held) + 2
    order = iter(rng.permutation(pages).tolist())
    table = np.full((len(held), entries), -1)
    page_owners = np.zeros((pages, 2), dtype=np.int64)
    for sentence, count in enumerate(held):
        for entry in range(count):
            table[sentence, entry] = page = next(order)
            page_owners[page] = sentence, entry
    return table, page_owners


def paged_inputs(rng: np.random.Generator, batch: int, beam: int, heads: int, d_head: int) -> Arrays:
    """Sentences of different ages."""
    entries = 2
    ages = rng.integers(0, entries * PAGE_SLOTS - beam, batch)
    table, page_owners = paged(rng, [-(-(age + beam) // PAGE_SLOTS) for age in ages.tolist()], entries)
    visible = np.zeros((batch, beam, entries * PAGE_SLOTS), dtype=bool)
    indices = np.zeros((batch, beam, heads, 3), dtype=np.int64)
    indices[..., 1] = np.arange(heads)
    for sentence, age in enumerate(ages.tolist()):
        visible[sentence, :, :age] = rng.random((beam, age)) < 0.6
        visible[sentence, np.arange(beam), age + np.arange(beam)] = True
        slots = age + np.arange(beam)
        indices[sentence, :, :, 0] = table[sentence, slots // PAGE_SLOTS][:, None]
        indices[sentence, :, :, 2] = (slots % PAGE_SLOTS)[:, None]
    return {
        "projected": normal(rng, batch, beam, 3 * heads * d_head),
        "past_key": normal(rng, len(page_owners), heads, PAGE_SLOTS, d_head),
        "past_value": normal(rng, len(page_owners), heads, PAGE_SLOTS, d_head),
        "slot_indices": indices,
        "page_table": table,
        "page_owners": page_owners,
        "visible": visible,
    }


def cross_inputs(rng: np.random.Generator, batch: int, beam: int, heads: int, d_head: int) -> Arrays:
    """Sources of different lengths."""
    entries = 2
    lengths = rng.integers(1, entries * PAGE_SLOTS + 1, batch)
    table, page_owners = paged(rng, [-(-length // PAGE_SLOTS) for length in lengths.tolist()], entries)
    return {
        "queries": normal(rng, batch, beam, heads * d_head),
        "key": normal(rng, len(page_owners), heads, PAGE_SLOTS, d_head),
        "value": normal(rng, len(page_owners), heads, PAGE_SLOTS, d_head),
        "page_table": table,
        "page_owners": page_owners,
        "source_lengths": lengths,
    }


Kind = tuple[Callable[[int, int], onnx.FunctionProto], Callable[..., Arrays]]
PAGED: Kind = (paged_attention, paged_inputs)
CROSS: Kind = (cross_attention, cross_inputs)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), shapes)
def test_paged_attention_is_its_function(operator: OpenOperator, seed: int, shape: tuple[int, int, int, int]) -> None:
    inputs = paged_inputs(np.random.default_rng(seed), *shape)
    operator(paged_attention(shape[2], shape[3]), inputs).check(inputs)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), shapes)
def test_cross_attention_is_its_function(operator: OpenOperator, seed: int, shape: tuple[int, int, int, int]) -> None:
    inputs = cross_inputs(np.random.default_rng(seed), *shape)
    operator(cross_attention(shape[2], shape[3]), inputs).check(inputs)
    # Of the first head alone the mean is its own.
    without_values = {name: value for name, value in inputs.items() if name != "value"}
    operator(first_head_attention(shape[2], shape[3]), without_values).check(without_values)


@pytest.mark.parametrize(("make", "given"), [PAGED, CROSS])
def test_attention_of_a_sentence_does_not_depend_on_its_batch(
    operator: OpenOperator, make: Callable[[int, int], onnx.FunctionProto], given: Callable[..., Arrays]
) -> None:
    inputs = given(np.random.default_rng(5), 6, 4, 2, 24)
    attend = operator(make(2, 24), inputs)
    together = attend.run(inputs)["mixed"]
    shared = ("past_key", "past_value", "key", "value", "page_owners")
    for i in range(6):
        alone = {name: array if name in shared else array[i : i + 1] for name, array in inputs.items()}
        assert (attend.run(alone)["mixed"] == together[i : i + 1]).all()


def test_keys_and_values_are_written_where_they_lie(operator: OpenOperator) -> None:
    inputs = paged_inputs(np.random.default_rng(7), 3, 4, 2, 16)
    attend = operator(paged_attention(2, 16), inputs)
    expected = attend.run(inputs)
    binding = attend.kernel.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    for part in ("key", "value"):
        binding.bind_ortvalue_output(
            f"present_{part}", onnxruntime.OrtValue.ortvalue_from_numpy(inputs[f"past_{part}"])
        )
    binding.bind_output("mixed")
    attend.kernel.run_with_iobinding(binding)
    assert (binding.get_outputs()[-1].numpy() == expected["mixed"]).all()
    for part in ("key", "value"):
        assert (inputs[f"past_{part}"] == expected[f"present_{part}"]).all()


@pytest.mark.parametrize(
    ("kind", "name", "change", "message"),
    [
        (PAGED, "slot_indices", lambda array: array + 10_000, "a slot to write to does not exist"),
        (PAGED, "slot_indices", lambda array: array - 10_000, "a slot to write to does not exist"),
        (PAGED, "slot_indices", lambda array: array[:, :, :1], "slot_indices does not name slots"),
        (PAGED, "visible", lambda array: array[:, :, 1:], "visible is not as wide as the pages of a sentence"),
        (PAGED, "visible", lambda array: array[:, 1:], "beams differ"),
        (PAGED, "page_table", lambda array: array[1:], "batches differ"),
        (PAGED, "projected", lambda array: array[:, :, 1:], "projected is not three times as wide as all heads"),
        (PAGED, "past_value", lambda array: array[1:], "keys and values differ in shape"),
        (CROSS, "source_lengths", lambda array: array[1:], "batches differ"),
        (CROSS, "source_lengths", lambda array: array + 2 * PAGE_SLOTS, "a source is longer than its pages"),
        (CROSS, "source_lengths", lambda array: array - 2 * PAGE_SLOTS - 1, "a source is longer than its pages"),
        (
            CROSS,
            "page_table",
            lambda array: np.where(array < 0, array, array + 100),
            "a page of a source does not exist",
        ),
        (CROSS, "page_table", lambda array: np.full_like(array, -1), "a page of a source does not exist"),
        (CROSS, "queries", lambda array: array[:, :, 1:], "queries are not as wide as all heads"),
        (CROSS, "value", lambda array: array[1:], "keys and values differ in shape"),
    ],
)
def test_wrong_pages_and_sources_are_refused(
    fastest: OpenOperator, kind: Kind, name: str, change: Change, message: str
) -> None:
    make, given = kind
    inputs = given(np.random.default_rng(1), 2, 4, 2, 16)
    function = make(2, 16)
    attend = fastest(function, inputs)
    attend.refuses(inputs | {name: change(inputs[name])}, message)


@pytest.mark.parametrize(("make", "given"), [PAGED, CROSS])
def test_several_threads_compute_the_same_attention(
    operator: OpenOperator, make: Callable[[int, int], onnx.FunctionProto], given: Callable[..., Arrays]
) -> None:
    inputs = given(np.random.default_rng(11), 16, 8, 8, 64)
    operator(make(8, 64), inputs, threads=2).check_equal(operator(make(8, 64), inputs), inputs)
