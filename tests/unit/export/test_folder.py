"""Weights in one file, apart from the graphs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from xuanzang.export.builder import GraphBuilder
from xuanzang.export.bundle.folder import WEIGHTS_FILE, write_graph_files, write_graphs
from xuanzang.export.graphs.build import GraphSet, build_graphs
from xuanzang.export.graphs.precision import ActivationRange, Floats, Int8, Precision
from xuanzang.export.tensors import TensorSpec
from xuanzang.export.weight_store import WeightStore
from xuanzang.model.checkpoint import network_of
from xuanzang.model.network.arrays import ArrayNetwork
from xuanzang.model.network.config import PRESETS, TransformerConfig
from xuanzang.model.network.transformer import Transformer

SPECS = [TensorSpec("x", "float32", ("batch",))], [TensorSpec("y", "float32", ("batch",))]


class AnyRange(dict[str, ActivationRange]):
    def __missing__(self, name: str) -> ActivationRange:
        return ActivationRange(-3.0, 3.0)


def sum_of(constants: dict[str, np.ndarray], *, extra_nodes: int = 0) -> onnx.ModelProto:
    """Return a graph that adds the sums of constants to its input."""
    graph, total = GraphBuilder("sum"), "x"
    for _ in range(extra_nodes):
        total = graph.op("Neg", total)
    for name, value in constants.items():
        total = graph.op("Add", total, graph.op("ReduceSum", graph.constant(name, value), keepdims=0))
    graph.op("Identity", total, output="y")
    return graph.model(*SPECS)


def constants_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def graph_files(graphs: GraphSet, folder: Path) -> dict[str, bytes]:
    write_graph_files(graphs, folder)
    return {path.name: path.read_bytes() for path in folder.glob("*.*") if path.name != "weights.scratch"}


def references(graph: bytes) -> dict[str, dict[str, str]]:
    model = onnx.ModelProto.FromString(graph)
    return {
        tensor.name: {entry.key: entry.value for entry in tensor.external_data}
        for tensor in model.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
    }


@pytest.fixture(scope="module")
def network() -> ArrayNetwork:
    config = TransformerConfig(source_vocab_size=96, target_vocab_size=96, **PRESETS["tiny"])
    return network_of(Transformer(config).eval())


@pytest.fixture(scope="module", params=[Floats("float32"), Floats("float16"), Int8(AnyRange())], ids=lambda p: p.name)
def precision(request: pytest.FixtureRequest) -> Precision:
    chosen: Precision = request.param
    return chosen


@pytest.fixture(scope="module")
def graphs(precision: Precision, network: ArrayNetwork) -> GraphSet:
    return build_graphs(network, precision)


arrays = st.integers(1, 3000).map(lambda size: np.random.default_rng(size).standard_normal(size).astype(np.float32))


@given(st.lists(st.dictionaries(st.sampled_from("abcdef"), arrays, min_size=1), min_size=1, max_size=3))
def test_graphs_and_weights_file_hold_what_the_models_did(
    tmp_path_factory: pytest.TempPathFactory, parts: list[dict[str, np.ndarray]]
) -> None:
    folder = tmp_path_factory.mktemp("graphs")
    models = {f"{index}.onnx": sum_of(constants) for index, constants in enumerate(parts)}
    write_graphs(models, folder)
    for name, model in models.items():
        found, expected = constants_of(onnx.load(folder / name)), constants_of(model)
        assert found.keys() == expected.keys()
        assert all(np.array_equal(found[key], expected[key]) for key in expected)


def test_all_graphs_share_one_weights_file_that_holds_the_embedding_once(graphs: GraphSet, tmp_path: Path) -> None:
    files = graph_files(graphs, tmp_path)
    assert files.keys() == {"encoder.onnx", "decoder.onnx", WEIGHTS_FILE}
    encoder, decoder = references(files["encoder.onnx"]), references(files["decoder.onnx"])
    assert {entry["location"] for entry in (*encoder.values(), *decoder.values())} == {WEIGHTS_FILE}
    assert encoder["embedding"] == decoder["embedding"]
    spans = {(int(entry["offset"]), int(entry["length"])) for entry in (*encoder.values(), *decoder.values())}
    contents = [files[WEIGHTS_FILE][offset : offset + length] for offset, length in spans]
    assert len(set(contents)) == len(contents)
    assert all(offset % 64 == 0 for offset, _ in spans)
    assert sum(map(len, contents)) > 0.9 * len(files[WEIGHTS_FILE])


def test_weights_that_lie_in_a_store_come_out_as_those_that_graphs_hold(
    graphs: GraphSet, precision: Precision, network: ArrayNetwork, tmp_path: Path
) -> None:
    held = graph_files(graphs, tmp_path)
    with closing(WeightStore(tmp_path)) as store:
        stored = build_graphs(network, precision, weights=store)
        assert sum(map(len, (stored.encoder.SerializeToString(), stored.decoder.SerializeToString()))) < 100_000
        assert graph_files(stored, tmp_path) == held


def test_a_changed_node_leaves_the_weights_file_as_it_is(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    constants = {name: rng.standard_normal(600).astype(np.float32) for name in "cab"}
    reordered = {name: constants[name] for name in "bca"}
    write_graphs({"g.onnx": sum_of(constants)}, tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in ("g.onnx", WEIGHTS_FILE)}
    write_graphs({"g.onnx": sum_of(reordered, extra_nodes=2)}, tmp_path)
    assert (tmp_path / "g.onnx").read_bytes() != before["g.onnx"]
    assert (tmp_path / WEIGHTS_FILE).read_bytes() == before[WEIGHTS_FILE]


def test_a_graph_opens_from_its_folder_only(graphs: GraphSet, tmp_path: Path) -> None:
    import onnxruntime

    write_graph_files(graphs, tmp_path)
    onnxruntime.InferenceSession(str(tmp_path / "encoder.onnx"), providers=["CPUExecutionProvider"])
    (tmp_path / WEIGHTS_FILE).unlink()
    with pytest.raises(Exception, match=WEIGHTS_FILE):
        onnxruntime.InferenceSession(str(tmp_path / "encoder.onnx"), providers=["CPUExecutionProvider"])
