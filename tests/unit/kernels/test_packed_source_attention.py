"""Attention of all tokens of a sentence to each other, sentences one after another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.kernels.conftest import Arrays, Change, OpenOperator

from xuanzang.export.operators.source_attention import packed_source_attention


def attention_inputs(rng: np.random.Generator, batch: int, source: int, heads: int, d_head: int) -> Arrays:
    lengths = rng.integers(1, source + 1, batch)
    places = [(sentence, position) for sentence, length in enumerate(lengths) for position in range(length)]
    return {
        "projected": (2 * rng.standard_normal((1, len(places), 3 * heads * d_head))).astype(np.float32),
        "source_lengths": lengths,
        "places": np.array([places]),
        "num_heads": np.array([heads]),
        "scale": np.array([0.02], np.float32),
        "zero": rng.integers(0, 256, 1, dtype=np.uint8),
    }


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.integers(1, 40),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([4, 8, 16, 64, 72]),
)
def test_packed_source_attention_is_its_function(
    operator: OpenOperator, seed: int, batch: int, source: int, heads: int, d_head: int
) -> None:
    inputs = attention_inputs(np.random.default_rng(seed), batch, source, heads, d_head)
    attention = operator(packed_source_attention(heads), inputs)
    found, expected = attention.run(inputs)["integers"], attention.function.run(None, inputs)[0]
    # What is in the middle between two integers may be rounded up or down.
    differences = np.abs(found.astype(int) - expected)
    assert differences.max() <= 1
    assert (differences > 0).mean() < 0.02


def test_a_sentence_has_the_same_attention_in_any_company_and_with_several_threads(operator: OpenOperator) -> None:
    inputs = attention_inputs(np.random.default_rng(3), 7, 33, 4, 64)
    together = operator(packed_source_attention(4), inputs, threads=2).run(inputs)["integers"]
    alone = operator(packed_source_attention(4), inputs)
    ends = np.cumsum(inputs["source_lengths"])
    for length, end in zip(inputs["source_lengths"], ends, strict=True):
        own = {name: np.ascontiguousarray(inputs[name][:, end - length : end]) for name in ("projected", "places")}
        one = alone.run(inputs | own | {"source_lengths": np.array([length])})["integers"]
        np.testing.assert_array_equal(one, together[:, end - length : end])


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("source_lengths", lambda array: array + 100, "the lengths are not those of the tokens"),
        ("source_lengths", lambda array: -array, "the lengths are not those of the tokens"),
        ("source_lengths", lambda array: array[1:], "the lengths are not those of the tokens"),
        ("projected", lambda array: array.reshape(-1, 1, array.shape[2]), "an input has the wrong dimensions"),
        ("projected", lambda array: array[:, :, 1:], "projected is not three times as wide as all heads"),
        ("num_heads", lambda array: array * 0, "the number of heads is not a positive number"),
        ("scale", lambda array: -array, "the scale is not a positive number"),
    ],
)
def test_wrong_attention_is_refused(fastest: OpenOperator, name: str, change: Change, message: str) -> None:
    inputs = attention_inputs(np.random.default_rng(1), 2, 4, 2, 8)
    attention = fastest(packed_source_attention(2), inputs)
    attention.refuses(inputs | {name: change(inputs[name])}, message)
