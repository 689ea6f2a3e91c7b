"""The server's messages for ONNX graphs against ONNX's own."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from google.protobuf.descriptor import FieldDescriptor

from xuanzang.bundle.v1 import graph_pb2

Descriptor = Any
"""Of a message; the stubs of ONNX and protobuf do not agree on its type."""
MESSAGES: dict[Descriptor, Descriptor] = {
    onnx.ModelProto.DESCRIPTOR: graph_pb2.OnnxModel.DESCRIPTOR,
    onnx.TrainingInfoProto.DESCRIPTOR: graph_pb2.OnnxTrainingInfo.DESCRIPTOR,
    onnx.GraphProto.DESCRIPTOR: graph_pb2.OnnxGraph.DESCRIPTOR,
    onnx.ValueInfoProto.DESCRIPTOR: graph_pb2.OnnxValue.DESCRIPTOR,
    onnx.FunctionProto.DESCRIPTOR: graph_pb2.OnnxFunction.DESCRIPTOR,
    onnx.NodeProto.DESCRIPTOR: graph_pb2.OnnxNode.DESCRIPTOR,
    onnx.AttributeProto.DESCRIPTOR: graph_pb2.OnnxAttribute.DESCRIPTOR,
    onnx.SparseTensorProto.DESCRIPTOR: graph_pb2.OnnxSparseTensor.DESCRIPTOR,
    onnx.TensorProto.DESCRIPTOR: graph_pb2.OnnxTensor.DESCRIPTOR,
    onnx.StringStringEntryProto.DESCRIPTOR: graph_pb2.OnnxEntry.DESCRIPTOR,
}
"""Messages of onnx.proto and what the server reads of them."""


def leads_to_tensors(message: Descriptor, seen: frozenset[str] = frozenset()) -> bool:
    if message is onnx.TensorProto.DESCRIPTOR:
        return True
    parts = [field.message_type for field in message.fields if field.message_type]
    return any(leads_to_tensors(part, seen | {message.name}) for part in parts if part.name not in seen)


@pytest.mark.parametrize("theirs", MESSAGES, ids=lambda message: message.name)
def test_fields_have_onnx_numbers_and_types(theirs: Descriptor) -> None:
    for field in MESSAGES[theirs].fields:
        other = theirs.fields_by_number[field.number]
        assert field.name == other.name
        assert field.is_repeated == other.is_repeated
        assert MESSAGES.get(other.message_type) is field.message_type
        kinds = {FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_ENUM}  # which have one wire format
        assert field.type == other.type or {field.type, other.type} == kinds


@pytest.mark.parametrize("theirs", MESSAGES, ids=lambda message: message.name)
def test_no_field_that_leads_to_a_tensor_is_skipped(theirs: Descriptor) -> None:
    needed = {field.name for field in theirs.fields if field.message_type and leads_to_tensors(field.message_type)}
    assert needed <= set(MESSAGES[theirs].fields_by_name)
