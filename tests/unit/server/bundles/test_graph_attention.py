from __future__ import annotations

from pathlib import Path

import pytest

from xuanzang.bundle.v1 import graph_pb2
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.graphs import attention_decoder, attention_encoder


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


def test_a_file_that_is_no_graph_is_refused(tmp_path: Path) -> None:
    (tmp_path / "graph.onnx").write_bytes(b"\xff\xff")
    with pytest.raises(BundleError, match=r"graph\.onnx is not an ONNX graph"):
        attention_encoder(tmp_path, "graph.onnx", layers=1)
