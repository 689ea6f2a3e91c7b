"""Valid protobuf with any content, and damaged protobuf: each gets an answer or a reason, never INTERNAL."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import grpc
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xuanzang.translation.v1 import translation_pb2 as pb

METHOD = "/xuanzang.translation.v1.TranslationService/"
MINUTES = float(os.environ.get("FUZZ_MINUTES", "0"))
REASONS = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
}

_log = logging.getLogger(__name__)

# Scripts that run together, marks without a base, controls, private use, surrogates' neighbours, and joined emoji.
ODD_TEXTS = (
    *("", " ", "\0", "\n\n", "\u2028", "\ufeff", "\ufffd", "\uffff", "\U0010ffff", "\ue000", "\x7f\x80", "\u202eabc"),
    *(
        "e\u0301" * 30,
        "\u0300" * 60,
        "👩\u200d👩\u200d👧\u200d👦" * 9,
        "ﷺ" * 20,
        "𝔘𝔫𝔦",
        "〱〲",
        "。" * 80,
        "，？！" * 30,
    ),
    *("a" * 400, "猫" * 200, "\u3000" * 200, "ก" * 100, "אבג abc 猫", "ﬁ①㎏", "\u2581 ▁▁", "<s></s><unk>", "▁⁇"),
)
texts = st.one_of(st.sampled_from(ODD_TEXTS), st.text(max_size=60), st.lists(st.sampled_from(ODD_TEXTS)).map("".join))
small = st.one_of(st.integers(-2, 40), st.sampled_from((-(2**31), 2**31 - 1)))
scales = st.one_of(st.floats(width=32), st.sampled_from((0.0, 1.0)))


def _value(field: Any) -> st.SearchStrategy[Any]:
    kinds = {field.CPPTYPE_BOOL: st.booleans(), field.CPPTYPE_STRING: texts, field.CPPTYPE_MESSAGE: st.nothing()}
    floats = {field.CPPTYPE_FLOAT: scales, field.CPPTYPE_DOUBLE: st.floats()}
    unsigned = {field.CPPTYPE_UINT32: st.integers(0, 2**32 - 1), field.CPPTYPE_UINT64: st.integers(0, 2**64 - 1)}
    return {**kinds, **floats, **unsigned}.get(field.cpp_type, small)


def _fill(draw: st.DrawFn, message: Message, *, without: Iterable[str] = ()) -> None:
    """Set some fields of a message, to any value of their type."""
    fields = [each for each in message.DESCRIPTOR.fields if each.message_type is None and each.name not in without]
    for field in draw(st.lists(st.sampled_from(fields), max_size=3)):
        if field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(_value(field), max_size=3)))
        else:
            setattr(message, field.name, draw(_value(field)))


@st.composite
def settings_of_requests(draw: st.DrawFn) -> pb.TranslationSettings:
    """Return settings with some fields set; rarely those that choose a model, which is then unknown."""
    made = pb.TranslationSettings()
    choosing = ("model", "source_language_code", "target_language_code")
    for name in choosing:
        if draw(st.integers(0, 4)) == 0:
            setattr(made, name, draw(texts))
    _fill(draw, made, without=choosing)
    _fill(draw, made.options)
    if draw(st.integers(0, 4)) == 0:
        _fill(draw, made.options.sampling)
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
        _fill(draw, made.glossary_entries.add())
    if not made.options.HasField("max_target_length"):
        made.options.max_target_length = 6
    return made


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Return the bytes of a request, of which some are changed in one of two cases."""
    request = pb.TranslateTextRequest(contents=draw(st.lists(texts, max_size=4)), settings=draw(settings_of_requests()))
    data = bytearray(request.SerializeToString())
    if data and draw(st.booleans()):
        for place, byte in draw(st.lists(st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)), max_size=6)):
            data[place] = byte
    return bytes(data)


def _fuzz(port: int, ends: float, examples: int) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        calls: dict[str, Any] = {
            "TranslateText": channel.unary_unary(METHOD + "TranslateText"),
            "StreamTranslateText": channel.stream_stream(METHOD + "StreamTranslateText"),
            "TranslateTextProgressively": channel.unary_stream(METHOD + "TranslateTextProgressively"),
            "ExplainTranslation": channel.unary_unary(METHOD + "ExplainTranslation"),
        }

        def code(name: str, data: bytes) -> grpc.StatusCode:
            try:
                call = calls[name](iter([data]) if name.startswith("Stream") else data, timeout=10)
                if not isinstance(call, bytes):
                    list(call)
            except grpc.RpcError as error:
                status: grpc.StatusCode = error.code()
                return status
            return grpc.StatusCode.OK

        statuses = Counter[str]()

        @settings(max_examples=examples, derandomize=not MINUTES, suppress_health_check=list(HealthCheck))
        @given(name=st.sampled_from(sorted(calls)), data=messages())
        def each_has_an_answer_or_a_reason(name: str, data: bytes) -> None:
            seen = code(name, data)
            statuses[seen.name] += 1
            assert seen in REASONS

        each_has_an_answer_or_a_reason()
        while time.monotonic() < ends:
            each_has_an_answer_or_a_reason()
        _log.info("%s", dict(statuses))


async def test_any_message_gets_an_answer_or_a_reason(attack: Any) -> None:
    ends = time.monotonic() + MINUTES * 60 / 4
    async with attack() as server:
        await asyncio.to_thread(_fuzz, server.port, ends, 2000 if MINUTES else 250)
        await server.check()
