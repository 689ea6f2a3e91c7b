"""Compatibility of the wire format between clients and servers of any two versions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.rpc import error_details_pb2 as google_details
from google.rpc import status_pb2 as google_status

from xuanzang.admin.v1 import admin_pb2
from xuanzang.bundle.v1 import graph_pb2, manifest_pb2
from xuanzang.inference.v2 import inference_pb2
from xuanzang.translation.v1 import explanation_pb2, status_pb2, translation_pb2
from xuanzang.translation.v1 import translation_pb2 as pb

OURS = (translation_pb2, explanation_pb2, status_pb2, admin_pb2, manifest_pb2)
FILES = (*OURS, graph_pb2, inference_pb2)
BASELINE = Path(__file__).parents[2] / "proto/baseline.binpb"


def statements(file: FileDescriptorProto) -> Iterator[tuple[Any, ...]]:
    """Yield what clients and servers rely on: fields, values of enumerations and methods."""
    for service in file.service:
        for method in service.method:
            streams = method.client_streaming, method.server_streaming
            yield f"{file.package}.{service.name}", method.name, method.input_type, method.output_type, *streams
    for message in file.message_type:
        yield from of_message(f"{file.package}.{message.name}", message)
    yield from of_enumerations(file.package, file.enum_type)


def of_message(name: str, message: DescriptorProto) -> Iterator[tuple[Any, ...]]:
    yield (name,)
    for field in message.field:
        presence = field.proto3_optional or field.HasField("oneof_index")
        yield name, field.name, field.number, field.label, field.type, field.type_name, presence
    for nested in message.nested_type:
        yield from of_message(f"{name}.{nested.name}", nested)
    yield from of_enumerations(name, message.enum_type)


def of_enumerations(scope: str, enumerations: Any) -> Iterator[tuple[Any, ...]]:
    each: EnumDescriptorProto
    for each in enumerations:
        yield from ((f"{scope}.{each.name}", value.name, value.number) for value in each.value)


def test_what_was_published_stays_and_what_is_new_is_published() -> None:
    # `make proto` refuses what breaks a client in use, and adds all else to the baseline.
    published = [
        file
        for file in FileDescriptorSet.FromString(BASELINE.read_bytes()).file
        if not file.package.startswith("google.")
    ]
    files = [FileDescriptorProto.FromString(file.DESCRIPTOR.serialized_pb) for file in FILES]
    found = {statement for file in files for statement in statements(file)}
    assert found == {statement for file in published for statement in statements(file)}


def test_requests_that_translate_have_the_same_settings() -> None:
    settings = pb.TranslationSettings.DESCRIPTOR
    requests: tuple[Any, ...] = (
        pb.TranslateTextRequest,
        pb.StreamTranslateTextRequest,
        pb.TranslateTextProgressivelyRequest,
        pb.ExplainTranslationRequest,
    )
    for fields in (request.DESCRIPTOR.fields_by_name for request in requests):
        assert fields["settings"].message_type is settings
        assert set(fields).isdisjoint(settings.fields_by_name), "shared by requests, so it belongs to the settings"


@pytest.mark.parametrize(
    ("ours", "googles"),
    [
        (status_pb2.Status, google_status.Status),
        (status_pb2.BadRequest, google_details.BadRequest),
        (status_pb2.BadRequest.FieldViolation, google_details.BadRequest.FieldViolation),
        (status_pb2.RetryInfo, google_details.RetryInfo),
        (status_pb2.ErrorInfo, google_details.ErrorInfo),
        (status_pb2.QuotaFailure, google_details.QuotaFailure),
    ],
    ids=["Status", "BadRequest", "FieldViolation", "RetryInfo", "ErrorInfo", "QuotaFailure"],
)
def test_errors_have_the_fields_that_googles_have(ours: Any, googles: Any) -> None:
    shape, theirs = (
        {field.number: (field.type, field.is_repeated) for field in each.DESCRIPTOR.fields} for each in (ours, googles)
    )
    # Google may add fields; ours are the first ones, and readers ignore the rest.
    assert shape == {number: theirs[number] for number in shape}
    assert shape
