"""References of graphs to their weights, and to what they must not refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from xuanzang.bundle.v1 import graph_pb2
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.graphs import attention_decoder, attention_encoder
from xuanzang.server.bundles.repository import load_bundle

Rewrite = Callable[[bytes], None]


@pytest.fixture
def rewrite_decoder(directory: Path, relist: Callable[[Path], None]) -> Rewrite:
    """Writes another decoder, listed with its digest."""

    def rewrite(content: bytes) -> None:
        (directory / "decoder.onnx").write_bytes(content)
        relist(directory)

    return rewrite


def reasons(directory: Path) -> list[str]:
    with pytest.raises(BundleError) as refusal:
        load_bundle(directory)
    return list(refusal.value.reasons)


def tensor(*entries: tuple[str, str]) -> graph_pb2.OnnxTensor:
    external = [graph_pb2.OnnxEntry(key=key, value=value) for key, value in entries]
    return graph_pb2.OnnxTensor(name="weight", data_location=1, external_data=external)


def at(location: str, offset: str = "0", length: str = "128") -> graph_pb2.OnnxTensor:
    return tensor(("location", location), ("offset", offset), ("length", length))


def model_with(constant: graph_pb2.OnnxTensor) -> graph_pb2.OnnxModel:
    return graph_pb2.OnnxModel(graph=graph_pb2.OnnxGraph(initializer=[constant]))


@pytest.mark.parametrize(
    "location", ["other.bin", "../weights.bin", "./weights.bin", "/etc/passwd", "shared.spm", "", "*/_ORT_MEM_ADDR_/*"]
)
def test_weights_in_any_other_file_are_refused(directory: Path, rewrite_decoder: Rewrite, location: str) -> None:
    rewrite_decoder(model_with(at(location)).SerializeToString())
    assert reasons(directory) == [f"decoder.onnx: 'weight' is in {location!r}; weights must be in 'weights.bin'"]


@pytest.mark.parametrize(
    ("offset", "length"),
    [
        ("0", "257"),
        ("256", "1"),
        ("1000", "1"),
        ("-1", "1"),
        ("0", "-1"),
        ("", "1"),
        ("0x0", "1"),
        ("٣", "1"),
        ("9" * 30, "1"),
        ("0", "1e2"),
    ],
)
def test_weights_outside_of_it_are_refused(directory: Path, rewrite_decoder: Rewrite, offset: str, length: str) -> None:
    rewrite_decoder(model_with(at("weights.bin", offset, length)).SerializeToString())
    [reason] = reasons(directory)
    assert reason == f"decoder.onnx: 'weight' has offset {offset!r}, length {length!r}; weights.bin has 256 bytes"


FILE = ("location", "weights.bin")
SPAN = (("offset", "0"), ("length", "1"))


@pytest.mark.parametrize(
    "entries",
    [(), (FILE,), SPAN, (FILE, *SPAN, FILE), (FILE, *SPAN, ("checksum", "0"))],
    ids=["nothing", "no span", "no file", "two files", "more"],
)
def test_ambiguous_references_are_refused(
    directory: Path, rewrite_decoder: Rewrite, entries: tuple[tuple[str, str], ...]
) -> None:
    rewrite_decoder(model_with(tensor(*entries)).SerializeToString())
    assert reasons(directory) == ["decoder.onnx: 'weight' must have one location, offset and length"]


def hidden_places() -> Iterator[Any]:
    """Models that refer to another file from everywhere but the list of constants."""
    bad = at("elsewhere")
    sparse = graph_pb2.OnnxSparseTensor(indices=bad)
    deep = graph_pb2.OnnxGraph(initializer=[bad])
    attributes = {
        "attribute": graph_pb2.OnnxAttribute(t=bad),
        "list of attributes": graph_pb2.OnnxAttribute(tensors=[bad]),
        "sparse attribute": graph_pb2.OnnxAttribute(sparse_tensor=sparse),
        "list of sparse attributes": graph_pb2.OnnxAttribute(sparse_tensors=[sparse]),
        "body of a loop": graph_pb2.OnnxAttribute(g=deep),
        "list of bodies": graph_pb2.OnnxAttribute(graphs=[deep]),
    }
    for name, attribute in attributes.items():
        node = graph_pb2.OnnxNode(attribute=[attribute])
        yield pytest.param(graph_pb2.OnnxModel(graph=graph_pb2.OnnxGraph(node=[node])), id=name)
        function = graph_pb2.OnnxFunction(node=[node])
        yield pytest.param(graph_pb2.OnnxModel(functions=[function]), id=f"{name} of a function")
    default = graph_pb2.OnnxFunction(attribute_proto=[attributes["attribute"]])
    yield pytest.param(graph_pb2.OnnxModel(functions=[default]), id="default of a function")
    sparse_graph = graph_pb2.OnnxGraph(sparse_initializer=[graph_pb2.OnnxSparseTensor(values=bad)])
    yield pytest.param(graph_pb2.OnnxModel(graph=sparse_graph), id="sparse constant")
    training = graph_pb2.OnnxTrainingInfo(algorithm=deep)
    yield pytest.param(graph_pb2.OnnxModel(training_info=[training]), id="training")


@pytest.mark.parametrize("model", [*hidden_places()])
def test_references_are_found_everywhere(directory: Path, rewrite_decoder: Rewrite, model: graph_pb2.OnnxModel) -> None:
    rewrite_decoder(model.SerializeToString())
    assert reasons(directory) == ["decoder.onnx: 'weight' is in 'elsewhere'; weights must be in 'weights.bin'"]


def nested(depth: int) -> bytes:
    """Return a model whose graph holds a node that holds a graph, and so on; protobuf itself refuses to build it."""
    content = b""
    for _ in range(depth):
        for field in (6, 5, 1):  # of the attribute, the node and the graph
            content = bytes([field << 3 | 2]) + varint(len(content)) + content
    return bytes([7 << 3 | 2]) + varint(len(content)) + content


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"not a graph", "is not an ONNX graph"),
        (b"\xff" * 40, "is not an ONNX graph"),
        pytest.param(nested(200), "is not an ONNX graph", id="nested"),
        # As one with its weights inside has.
        pytest.param(bytes((16 << 20) + 1), "has more than 16777216 bytes", id="large"),
    ],
)
def test_what_is_no_graph_without_weights_is_refused(
    directory: Path, rewrite_decoder: Rewrite, content: bytes, fault: str
) -> None:
    rewrite_decoder(content)
    assert reasons(directory) == [f"decoder.onnx {fault}"]
    with pytest.raises(BundleError, match=rf"decoder\.onnx {fault}"):
        attention_encoder(directory, "decoder.onnx", layers=1)


def test_a_graph_in_another_format_is_refused(directory: Path, edit_manifest: Callable[..., None]) -> None:
    (directory / "decoder.onnx").rename(directory / "decoder.ort")

    def rename(manifest: dict[str, Any]) -> None:
        manifest["decoder"]["file"] = "decoder.ort"
        for file in manifest["files"]:
            file["name"] = file["name"].replace("decoder.onnx", "decoder.ort")

    edit_manifest(directory, rename)
    assert reasons(directory) == ["decoder.ort is not named as an .onnx file"]


def write(folder: Path, *operators: str) -> str:
    """Write a graph whose nodes take "OPERATOR.in", "OPERATOR.keys" and have no weights."""
    nodes = [graph_pb2.OnnxNode(op_type=name, input=[f"{name}.in", f"{name}.keys"]) for name in operators]
    graph = graph_pb2.OnnxGraph(node=nodes, output=[graph_pb2.OnnxValue(name="known")])
    content = graph_pb2.OnnxModel(graph=graph).SerializeToString()
    # A field that the server does not know: the version of the format.
    (folder / "graph.onnx").write_bytes(b"\x08\x07" + content)
    return "graph.onnx"


def test_queries_and_keys_become_outputs_and_all_else_stays(tmp_path: Path) -> None:
    name = write(tmp_path, "CrossAttention_float16", "Relu", "PagedAttention_float16")
    found = attention_decoder(tmp_path, name, layers=1)
    assert (found.queries, found.projected) == (("CrossAttention_float16.in",), ("PagedAttention_float16.in",))
    model = graph_pb2.OnnxModel.FromString(found.content)
    assert [value.name for value in model.graph.output] == ["known", *found.queries, *found.projected]
    assert len(model.graph.node) == 3
    assert b"\x08\x07" in found.content
    encoder = attention_encoder(tmp_path, write(tmp_path, "MultiHeadAttention"), layers=1)
    assert (encoder.queries, encoder.keys) == (("MultiHeadAttention.in",), ("MultiHeadAttention.keys",))
    for operator in ("PackedSourceAttention", "SourceAttention"):
        fused = attention_encoder(tmp_path, write(tmp_path, operator), layers=1)
        assert (fused.projected, fused.queries) == ((f"{operator}.in",), ())


def test_a_graph_with_other_attention_than_its_layers_is_refused(tmp_path: Path) -> None:
    name = write(tmp_path, "CrossAttention", "CrossAttention", "PagedAttention")
    with pytest.raises(
        BundleError, match=r"graph\.onnx has 1 operators PagedAttention, and the dimensions say 2 layers"
    ):
        attention_decoder(tmp_path, name, layers=2)
    with pytest.raises(BundleError, match="0 operators MultiHeadAttention"):
        attention_encoder(tmp_path, name, layers=2)
