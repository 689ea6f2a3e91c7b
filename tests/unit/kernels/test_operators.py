"""The kernels against what their operators mean: the functions that every bundle holds, run by onnxruntime alone."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from xuanzang import kernels
from xuanzang.export.builder import IR_VERSION, OWN
from xuanzang.export.operators.add_norm_quantize import add_norm_quantize
from xuanzang.export.operators.attention import cross_attention, paged_attention
from xuanzang.export.operators.chosen_logits import chosen_logits
from xuanzang.export.operators.continuations import GROUP, best_continuations
from xuanzang.export.tensors import PAGE_SLOTS
from xuanzang.kernels import library

BUILT = library()
SOURCES = Path(kernels.__file__).parent
NEEDED = {"v3": {"AVX2", "X86_V3"}, "v4": {"AVX512_SKX", "X86_V4"}}
"""What numpy calls the instructions of each version that not every processor has."""
COMPILE = ("g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-shared", "-fPIC")
pytestmark = pytest.mark.skipif(BUILT is None, reason="the kernels were not built: there is no C++ compiler")

Arrays = dict[str, np.ndarray]
shapes = st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 3), st.sampled_from([1, 5, 16, 24, 64]))
"""Sentences, hypotheses, heads and the size of a head: whole vectors, parts of them, and both."""


@pytest.fixture(
    scope="session", params=["for this processor", "for AVX-512", "for AVX2", "for any processor"], autouse=True
)
def operators(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let the tests use each version of the kernels in turn."""
    version = {"for AVX-512": "v4", "for AVX2": "v3", "for any processor": "any"}.get(request.param)
    Operator.library = BUILT
    if version is None:
        return
    if not shutil.which("g++"):
        pytest.skip("there is no g++ to compile this version")
    if version in NEEDED and not NEEDED[version] & {*np.show_config(mode="dicts")["SIMD Extensions"]["found"]}:
        pytest.skip("this processor has no such instructions")
    Operator.library = tmp_path_factory.mktemp("kernels") / f"{version}.so"
    subprocess.run(
        [*COMPILE, f"-DXUANZANG_LOOPS={version}", "-o", Operator.library, *sorted(SOURCES.glob("*.cc"))], check=True
    )


class Operator:
    """One operator in two sessions: as a kernel, and as standard operators."""

    library: Path | None = None
    """With the kernels."""

    def __init__(self, function: onnx.FunctionProto, inputs: Arrays, *, threads: int = 1) -> None:
        self.names = list(function.output)
        self.kernel = _open(function, inputs, operators=self.library, threads=threads)
        self.function = _open(function, inputs, operators=None, threads=threads)

    def run(self, inputs: Arrays) -> Arrays:
        return dict(zip(self.names, self.kernel.run(None, inputs), strict=True))

    def check(self, inputs: Arrays) -> Arrays:
        """Run both, compare them, and return what the kernel gave."""
        found = self.run(inputs)
        for name, expected in zip(self.names, self.function.run(None, inputs), strict=True):
            assert found[name].shape == expected.shape
            np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=2e-6, err_msg=name)
        return found


def _open(
    function: onnx.FunctionProto, inputs: Arrays, *, operators: Path | None, threads: int
) -> onnxruntime.InferenceSession:
    node = helper.make_node(function.name, list(function.input), list(function.output), domain=OWN)
    described = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), [f"{name}_{axis}" for axis in range(array.ndim)]
        )
        for name, array in inputs.items()
    ]
    graph = helper.make_graph(
        [node], "operator", described, [helper.make_empty_tensor_value_info(name) for name in function.output]
    )
    opsets = [*function.opset_import, helper.make_opsetid(OWN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, functions=[function])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # refused inputs are asked for
    if operators:
        options.register_custom_ops_library(str(operators))
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def paged(rng: np.random.Generator, held: list[int], places: int) -> tuple[np.ndarray, np.ndarray]:
    """Return page_table and page_owners of sentences that hold some pages each, in any order, beside two free ones."""
    pages = sum(held) + 2
    order = iter(rng.permutation(pages).tolist())
    table = np.full((len(held), places), -1)
    stands = np.zeros((pages, 2), dtype=np.int64)
    for row, count in enumerate(held):
        for place in range(count):
            table[row, place] = page = next(order)
            stands[page] = row, place
    return table, stands


def paged_inputs(rng: np.random.Generator, batch: int, beam: int, heads: int, d_head: int) -> Arrays:
    """Sentences of different ages."""
    places = 2
    ages = rng.integers(0, places * PAGE_SLOTS - beam, batch)
    table, stands = paged(rng, [-(-(age + beam) // PAGE_SLOTS) for age in ages.tolist()], places)
    visible = np.zeros((batch, beam, places * PAGE_SLOTS), dtype=bool)
    indices = np.zeros((batch, beam, heads, 3), dtype=np.int64)
    indices[..., 1] = np.arange(heads)
    for row, age in enumerate(ages.tolist()):
        visible[row, :, :age] = rng.random((beam, age)) < 0.6
        visible[row, np.arange(beam), age + np.arange(beam)] = True
        slots = age + np.arange(beam)
        indices[row, :, :, 0] = table[row, slots // PAGE_SLOTS][:, None]
        indices[row, :, :, 2] = (slots % PAGE_SLOTS)[:, None]
    return {
        "projected": normal(rng, batch, beam, 3 * heads * d_head),
        "past_key": normal(rng, len(stands), heads, PAGE_SLOTS, d_head),
        "past_value": normal(rng, len(stands), heads, PAGE_SLOTS, d_head),
        "slot_indices": indices,
        "page_table": table,
        "page_owners": stands,
        "visible": visible,
    }


def cross_inputs(rng: np.random.Generator, batch: int, beam: int, heads: int, d_head: int) -> Arrays:
    """Sources of different lengths."""
    places = 2
    lengths = rng.integers(1, places * PAGE_SLOTS + 1, batch)
    table, stands = paged(rng, [-(-length // PAGE_SLOTS) for length in lengths.tolist()], places)
    return {
        "queries": normal(rng, batch, beam, heads * d_head),
        "key": normal(rng, len(stands), heads, PAGE_SLOTS, d_head),
        "value": normal(rng, len(stands), heads, PAGE_SLOTS, d_head),
        "page_table": table,
        "page_owners": stands,
        "source_lengths": lengths,
    }


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


def norm_inputs(rng: np.random.Generator, shape: tuple[int, ...], delta: tuple[int, ...]) -> Arrays:
    width = shape[-1]
    return {
        "x": 3 * normal(rng, *shape) + normal(rng, *shape[:-1], 1),
        "delta": normal(rng, *delta),
        "weight": normal(rng, width),
        "bias": normal(rng, width),
        "scale": np.array(rng.uniform(0.005, 0.05), dtype=np.float32),
        "zero": np.array(rng.integers(0, 256), dtype=np.uint8),
    }


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), shapes)
def test_paged_attention_is_its_function(seed: int, shape: tuple[int, int, int, int]) -> None:
    inputs = paged_inputs(np.random.default_rng(seed), *shape)
    Operator(paged_attention(shape[2], shape[3]), inputs).check(inputs)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), shapes)
def test_cross_attention_is_its_function(seed: int, shape: tuple[int, int, int, int]) -> None:
    inputs = cross_inputs(np.random.default_rng(seed), *shape)
    Operator(cross_attention(shape[2], shape[3]), inputs).check(inputs)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(1, 20),
    st.integers(1, 40),
    st.integers(0, 5),
)
def test_best_continuations_are_their_function(
    seed: int, batch: int, beam: int, groups: int, count: int, banned: int
) -> None:
    rng = np.random.default_rng(seed)
    inputs = choice_inputs(rng, batch, beam, groups=groups, count=count, banned=banned)
    Operator(best_continuations(), inputs).check(inputs)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 9), st.sampled_from([1, 5, 16, 30, 64, 200]))
@pytest.mark.parametrize("repeated", ["nowhere", "in a batch", "in a beam", "everywhere"])
def test_add_norm_quantize_is_its_function(repeated: str, seed: int, batch: int, beam: int, width: int) -> None:
    delta = {"nowhere": (batch, beam, width), "in a batch": (beam, width), "in a beam": (batch, 1, width)}
    inputs = norm_inputs(np.random.default_rng(seed), (batch, beam, width), delta.get(repeated, (1, 1, width)))
    add = Operator(add_norm_quantize(), inputs)
    found = add.run(inputs)
    integers, total, normed = add.function.run(None, inputs)
    np.testing.assert_array_equal(found["total"], total)
    np.testing.assert_allclose(found["normed"], normed, rtol=1e-4, atol=1e-5)
    # What is in the middle between two integers may be rounded up or down.
    exact = np.clip(normed / inputs["scale"] + inputs["zero"], 0, 255)
    assert np.abs(found["integers"] - exact).max() < 0.5 + 1e-2
    assert (found["integers"] != integers).mean() < 0.02


def test_integers_reach_from_0_to_255() -> None:
    inputs = norm_inputs(np.random.default_rng(0), (2, 3, 64), (2, 3, 64)) | {"scale": np.array(0.001, np.float32)}
    integers = Operator(add_norm_quantize(), inputs).run(inputs)["integers"]
    assert {integers.min(), integers.max()} == {0, 255}


def chosen_inputs(rng: np.random.Generator, batch: int, beam: int, width: int, choices: int = 200) -> Arrays:
    vocabulary = 300
    return {
        "x": rng.integers(0, 256, (batch, beam, width), dtype=np.uint8),
        "columns": rng.integers(-127, 128, (vocabulary, width), dtype=np.int8),
        "scales": np.abs(normal(rng, vocabulary)) / 100,
        "biases": normal(rng, vocabulary),
        "ids": rng.integers(0, vocabulary, (batch, choices)),
    }


@settings(max_examples=20)
@given(
    st.integers(1, 4), st.integers(1, 9), st.sampled_from([1, 63, 64, 256, 300]), st.sampled_from([0, 1, 64, 130, 200])
)
def test_logits_of_chosen_pieces(batch: int, beam: int, width: int, choices: int) -> None:
    inputs = chosen_inputs(np.random.default_rng(choices), batch, beam, width, choices)
    found = Operator(chosen_logits(), inputs).check(inputs)["logits"]
    columns = inputs["columns"].astype(np.int64)[inputs["ids"]]
    products = inputs["x"].astype(np.int64) @ columns.transpose(0, 2, 1)
    scales, biases = (inputs[name].astype(np.float64)[inputs["ids"]][:, None] for name in ("scales", "biases"))
    np.testing.assert_allclose(found, products * scales + biases, rtol=1e-6, atol=1e-5)


def test_best_continuations_are_those_of_the_whole_vocabulary() -> None:
    inputs = choice_inputs(np.random.default_rng(3), 2, 4, groups=300, count=10)
    found = Operator(best_continuations(), inputs).run(inputs)
    logits = inputs["logits"].astype(np.float64)
    totals = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True)) + inputs["scores"][:, :, None]
    flat = totals.reshape(2, -1)
    best = np.argsort(-flat, axis=1)[:, :10]
    np.testing.assert_allclose(found["best_scores"], np.take_along_axis(flat, best, axis=1), atol=1e-5)
    assert (found["best_parents"] == best // logits.shape[2]).all()
    assert (found["best_ids"] == best % logits.shape[2]).all()


@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan])
def test_logits_that_are_no_finite_numbers_still_give_pieces_that_exist(value: float) -> None:
    inputs = choice_inputs(np.random.default_rng(2), 3, 4, groups=9, count=10, banned=2)
    choose = Operator(best_continuations(), inputs)
    for share in (0.5, 0.99, 1.0):
        broken = np.random.default_rng(4).random(inputs["logits"].shape) < share
        found = choose.run(inputs | {"logits": np.where(broken, np.float32(value), inputs["logits"])})
        assert found["best_ids"].shape == (3, 10)
        assert ((found["best_ids"] >= 0) & (found["best_ids"] < 9 * GROUP)).all()
        assert ((found["best_parents"] >= 0) & (found["best_parents"] < 4)).all()
    if value == -np.inf:  # nothing is left to choose
        assert (found["best_scores"] < -1e8).all()


@pytest.mark.parametrize(("make", "given"), [(paged_attention, paged_inputs), (cross_attention, cross_inputs)])
def test_a_sentence_is_computed_alike_in_any_company(
    make: Callable[[int, int], onnx.FunctionProto], given: Callable[..., Arrays]
) -> None:
    inputs = given(np.random.default_rng(5), 6, 4, 2, 24)
    attend = Operator(make(2, 24), inputs)
    together = attend.run(inputs)["mixed"]
    shared = ("past_key", "past_value", "key", "value", "page_owners")
    for row in range(6):
        alone = {name: array if name in shared else array[row : row + 1] for name, array in inputs.items()}
        assert (attend.run(alone)["mixed"] == together[row : row + 1]).all()


def test_keys_and_values_are_written_where_they_lie() -> None:
    inputs = paged_inputs(np.random.default_rng(7), 3, 4, 2, 16)
    attend = Operator(paged_attention(2, 16), inputs)
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


def test_several_threads_compute_the_same() -> None:
    rng = np.random.default_rng(11)
    history, cross = paged_inputs(rng, 8, 4, 8, 64), cross_inputs(rng, 16, 8, 8, 64)
    choice = choice_inputs(rng, 8, 4, groups=300)
    for function, inputs in (
        (paged_attention(8, 64), history),
        (cross_attention(8, 64), cross),
        (best_continuations(), choice),
        (chosen_logits(), chosen_inputs(rng, 8, 4, 512, choices=256)),
    ):
        alone, together = Operator(function, inputs), Operator(function, inputs, threads=2)
        for name, array in alone.run(inputs).items():
            assert (together.run(inputs)[name] == array).all()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("slot_indices", lambda array: array + 10_000, "a slot to write to does not exist"),
        ("slot_indices", lambda array: array - 10_000, "a slot to write to does not exist"),
        ("slot_indices", lambda array: array[:, :, :1], "slot_indices does not name slots"),
        ("visible", lambda array: array[:, :, 1:], "visible is not as wide as the pages of a sentence"),
        ("visible", lambda array: array[:, 1:], "beams differ"),
        ("page_table", lambda array: array[1:], "batches differ"),
        ("projected", lambda array: array[:, :, 1:], "projected is not three times as wide as all heads"),
        ("past_value", lambda array: array[1:], "keys and values differ in shape"),
    ],
)
def test_wrong_pages_are_refused(name: str, change: Callable[[np.ndarray], np.ndarray], message: str) -> None:
    inputs = paged_inputs(np.random.default_rng(1), 2, 4, 2, 16)
    attend = Operator(paged_attention(2, 16), inputs)
    with pytest.raises(InvalidArgument, match=f"PagedAttention: {message}"):
        attend.run(inputs | {name: np.ascontiguousarray(change(inputs[name]))})


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("source_lengths", lambda array: array[1:], "batches differ"),
        ("source_lengths", lambda array: array + 2 * PAGE_SLOTS, "a source is longer than its pages"),
        ("source_lengths", lambda array: array - 2 * PAGE_SLOTS - 1, "a source is longer than its pages"),
        ("page_table", lambda array: np.where(array < 0, array, array + 100), "a page of a source does not exist"),
        ("page_table", lambda array: np.full_like(array, -1), "a page of a source does not exist"),
        ("queries", lambda array: array[:, :, 1:], "queries are not as wide as all heads"),
        ("value", lambda array: array[1:], "keys and values differ in shape"),
    ],
)
def test_a_wrong_source_is_refused(name: str, change: Callable[[np.ndarray], np.ndarray], message: str) -> None:
    inputs = cross_inputs(np.random.default_rng(1), 2, 4, 2, 16)
    attend = Operator(cross_attention(2, 16), inputs)
    with pytest.raises(InvalidArgument, match=f"CrossAttention: {message}"):
        attend.run(inputs | {name: np.ascontiguousarray(change(inputs[name]))})


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("delta", lambda array: array[:, :2], "what is added is neither as x nor repeated"),
        ("delta", lambda array: array[:, :, 1:], "x and what is added differ in width"),
        ("weight", lambda array: array[1:], "weight and bias are not as wide as x"),
        ("scale", lambda array: -array, "the scale is not a positive number"),
    ],
)
def test_a_wrong_sum_is_refused(name: str, change: Callable[[np.ndarray], np.ndarray], message: str) -> None:
    inputs = norm_inputs(np.random.default_rng(1), (2, 4, 16), (2, 4, 16))
    add = Operator(add_norm_quantize(), inputs)
    with pytest.raises(InvalidArgument, match=f"AddNormQuantize: {message}"):
        add.run(inputs | {name: np.ascontiguousarray(change(inputs[name]))})


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("ids", lambda array: array - 1000, "a piece does not exist"),
        ("ids", lambda array: array + 1000, "a piece does not exist"),
        ("ids", lambda array: array[1:], "batches differ"),
        ("columns", lambda array: array[:, 1:], "x and columns differ in width"),
        ("scales", lambda array: array[1:], "a column has no scale or no bias"),
        ("biases", lambda array: array[1:], "a column has no scale or no bias"),
    ],
)
def test_wrong_choices_are_refused(name: str, change: Callable[[np.ndarray], np.ndarray], message: str) -> None:
    inputs = chosen_inputs(np.random.default_rng(1), 2, 4, 16)
    project = Operator(chosen_logits(), inputs)
    with pytest.raises(InvalidArgument, match=f"ChosenLogits: {message}"):
        project.run(inputs | {name: np.ascontiguousarray(change(inputs[name]))})


def test_a_wrong_number_of_continuations_is_refused() -> None:
    inputs = choice_inputs(np.random.default_rng(1), 2, 4)
    choose = Operator(best_continuations(), inputs)
    with pytest.raises(InvalidArgument, match="BestContinuations: the number of continuations is not a positive"):
        choose.run(inputs | {"count": np.array([0])})
    with pytest.raises(InvalidArgument, match="BestContinuations: there is not one score for each hypothesis"):
        choose.run(inputs | {"scores": inputs["scores"][:, 1:]})
