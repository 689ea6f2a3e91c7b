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

OPTIONS = pb.DecodingOptions(
    beam_size=4, num_hypotheses=1, length_penalty=1, min_target_length=0, max_target_length=300
)
SETTINGS = pb.TranslationSettings(
    source_language_code="zh", target_language_code="en", model="m", options=OPTIONS, return_scores=True
)
# Written by hand from the rules of the encoding: key = number << 3 | wire type, then length or value.
GOLDENS = [
    (pb.TranslateTextRequest(contents=["猫", ""]), "0a03e78cab 0a00"),
    (
        pb.TranslateTextRequest(contents=["a"], settings=SETTINGS),
        "0a0161 121d 0a027a68 1202656e 1a016d 220e 0804 1001 1d0000803f 3800 40ac02 5001",
    ),
    # An option set to zero is not an option left out.
    (pb.DecodingOptions(length_penalty=0, refuse_long_sentences=False), "1d00000000 6800"),
    # Empty sampling options mean sampling with the defaults.
    (pb.DecodingOptions(sampling=pb.SamplingOptions()), "5a00"),
    (
        pb.DecodingOptions(
            suppressed_texts=["a", "b"], sampling=pb.SamplingOptions(top_k=5, top_p=0.5, temperature=2, seed=0)
        ),
        "520161 520162 5a0e 0805 150000003f 1d00000040 2000",
    ),
    (
        pb.StreamTranslateTextResponse(id="7", error=status_pb2.Status(code=3, message="no")),
        "0a0137 1a06 0803 12026e6f",
    ),
    # A probability of 0 is not one left out, nor is the first head the mean of all.
    (pb.Quality(acceptable_probability=0), "0d00000000"),
    (explanation_pb2.Attention(kind=explanation_pb2.ATTENTION_KIND_CROSS), "0801"),
    (
        explanation_pb2.Attention(
            kind=explanation_pb2.ATTENTION_KIND_DECODER, layer=1, head=0, rows=1, columns=2, weights=[0.5, 0.5]
        ),
        "0803 1001 1800 2001 2802 3208 0000003f 0000003f",
    ),
    (pb.ListModelsRequest(), ""),
]


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


@pytest.mark.parametrize("file", OURS)
def test_fields_are_numbered_in_the_order_of_the_file(file: Any) -> None:
    for message in file.DESCRIPTOR.message_types_by_name.values():
        assert [field.number for field in message.fields] == list(range(1, len(message.fields) + 1)), message.name


def test_optional_fields_have_presence() -> None:
    for options in (pb.DecodingOptions, pb.SamplingOptions):
        fields = [field for field in options.DESCRIPTOR.fields if not field.is_repeated]
        assert [field.name for field in fields if not field.has_presence] == []
    assert pb.Hypothesis.DESCRIPTOR.fields_by_name["score"].has_presence
    assert pb.Quality.DESCRIPTOR.fields_by_name["acceptable_probability"].has_presence


@pytest.mark.parametrize(("message", "golden"), GOLDENS, ids=lambda value: type(value).__name__)
def test_messages_are_written_and_read_byte_for_byte(message: Any, golden: Any) -> None:
    wire = bytes.fromhex(golden)
    assert message.SerializeToString(deterministic=True) == wire
    assert type(message).FromString(wire) == message


def test_unknown_fields_of_a_later_version_are_kept() -> None:
    later = bytes.fromhex("0a0161 9a0603") + b"new"  # field 99
    assert pb.TranslateTextRequest.FromString(later).SerializeToString() == later


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


def filled_errors() -> Any:
    bad_request = google_details.BadRequest(
        field_violations=[google_details.BadRequest.FieldViolation(field="contents[3]", description="is too long")]
    )
    retry = google_details.RetryInfo()
    retry.retry_delay.FromMilliseconds(2500)
    status = google_status.Status(code=8, message="busy")
    for detail in (bad_request, retry):
        status.details.add().Pack(detail)
    return status, bad_request, retry


def test_errors_written_by_googles_classes_are_read_byte_for_byte_by_ours() -> None:
    ours: tuple[Any, ...] = (status_pb2.Status, status_pb2.BadRequest, status_pb2.RetryInfo)
    for theirs, kind in zip(filled_errors(), ours, strict=True):
        wire = theirs.SerializeToString(deterministic=True)
        read = kind.FromString(wire)
        assert read.SerializeToString(deterministic=True) == wire
        assert not [
            field.number for field, _ in read.ListFields() if field.number not in kind.DESCRIPTOR.fields_by_number
        ]
        assert type(theirs).FromString(read.SerializeToString()) == theirs
