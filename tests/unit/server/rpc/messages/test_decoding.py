"""Decoding of large messages: the same as of small ones, in slices, and refused at the first element too many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from xuanzang.server.engine.errors import InvalidInputError
from xuanzang.server.rpc.limits import SMALL_BYTES
from xuanzang.server.rpc.messages.decoding import decode, identified
from xuanzang.translation.v1 import translation_pb2 as pb

BYTES = 2**20

texts = st.one_of(st.text(max_size=20), st.integers(1, 60_000).map("中".__mul__))
entries = st.lists(st.builds(pb.GlossaryEntry, source=texts, targets=st.lists(texts, max_size=8)), max_size=20)
requests = st.builds(
    pb.TranslateTextRequest,
    contents=st.lists(texts, max_size=20),
    settings=st.builds(
        pb.TranslationSettings,
        model=texts,
        glossary_entries=entries,
        options=st.builds(
            pb.DecodingOptions, beam_size=st.integers(0, 9), suppressed_texts=st.lists(texts, max_size=9)
        ),
    ),
)


def field(number: int, content: bytes) -> bytes:
    """Write a field with a length."""
    length, size = b"", len(content)
    while True:
        size, low = size >> 7, size & 127
        length += bytes([low | 128 if size else low])
        if not size:
            return bytes([number << 3 | 2]) + length + content


@settings(max_examples=100, deadline=None)
@given(requests)
def test_a_message_is_the_same_in_slices_and_at_once(request: pb.TranslateTextRequest) -> None:
    data = request.SerializeToString()
    assert decode(pb.TranslateTextRequest, data) == pb.TranslateTextRequest.FromString(data)


ELEMENT = b"\x0a\x00"
SUPPRESSED = pb.DecodingOptions.DESCRIPTOR.fields_by_name["suppressed_texts"].number
OPTIONS = pb.TranslationSettings.DESCRIPTOR.fields_by_name["options"].number
ENTRIES = pb.TranslationSettings.DESCRIPTOR.fields_by_name["glossary_entries"].number
SETTINGS = pb.TranslateTextRequest.DESCRIPTOR.fields_by_name["settings"].number


@pytest.mark.parametrize(
    ("message", "data", "refused"),
    [
        (pb.TranslateTextRequest, ELEMENT * BYTES, "contents"),
        (pb.DetectLanguageRequest, ELEMENT * BYTES, "contents"),
        (pb.CreateGlossaryRequest, field(5, b"") * BYTES, "entries"),
        (pb.CreateGlossaryRequest, field(5, field(2, b"") * BYTES), "entries.targets"),
        (pb.TranslateTextRequest, field(SETTINGS, field(ENTRIES, b"") * BYTES), "settings.glossary_entries"),
        (
            pb.TranslateTextRequest,
            field(SETTINGS, field(OPTIONS, field(SUPPRESSED, b"") * BYTES)),
            "settings.options.suppressed_texts",
        ),
        (pb.ExplainTranslationRequest, field(4, b"\x01" * BYTES), "attention_layers"),
        (pb.ExplainTranslationRequest, b"\x20\x01" * BYTES, "attention_layers"),
    ],
)
def test_millions_of_elements_are_refused_by_field(message: Callable[[], Any], data: bytes, refused: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        decode(message, data)
    [fault] = caught.value.violations
    assert fault.field == refused
    assert "must have at most" in fault.description


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * BYTES,
        b"\x0b\x0c" * BYTES,
        field(1, b"a" * BYTES)[:-1],
        field(1, b"\xff" * BYTES),
        b"\xf8\x07\x01" * BYTES,
        b"\x0a" + b"\x80" * 20 + b"\x01" + b"a" * BYTES,
    ],
    ids=["varint", "group", "cut", "utf8", "unknown", "length"],
)
def test_what_is_no_message_is_a_decoding_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(pb.TranslateTextRequest, data)


def test_small_messages_are_decoded_at_once() -> None:
    many = ELEMENT * (SMALL_BYTES // len(ELEMENT))
    assert len(decode(pb.TranslateTextRequest, many).contents) == SMALL_BYTES // 2


def test_a_text_that_is_far_too_long_is_refused_before_it_is_read() -> None:
    data = pb.TranslateTextRequest(contents=["a", "中" * 9000, "a" * 90_000]).SerializeToString()
    with pytest.raises(InvalidInputError) as caught:
        decode(pb.TranslateTextRequest, data, max_characters=1000)
    assert [fault.field for fault in caught.value.violations] == ["contents[1]", "contents[2]"]
    assert len(decode(pb.TranslateTextRequest, data, max_characters=90_000).contents) == 3
    assert len(decode(pb.DetectLanguageRequest, data, max_characters=1000).contents) == 3


@given(st.text(max_size=300))
def test_a_message_over_a_limit_keeps_its_id(text_id: str) -> None:
    data = pb.StreamTranslateTextRequest(id=text_id, content="a" * BYTES).SerializeToString()
    assert identified(pb.StreamTranslateTextRequest, data) == pb.StreamTranslateTextRequest(id=text_id)
