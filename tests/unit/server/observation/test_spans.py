from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kept_spans import KeptSpans
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState
from otlp import attributes_of

from xuanzang.server.engine.calls.record import CallRecord, SearchRecord
from xuanzang.server.engine.scheduling.request import SentenceTimeline
from xuanzang.server.observation.spans import MAX_SENTENCES
from xuanzang.server.observation.tracing import MAX_SPANS

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"


def timeline(number: int) -> SentenceTimeline:
    times: dict[str, Any] = {
        "queued_at": 1.0,
        "taken_at": 2.0 + number,
        "encoded_at": 2.25 + number,
        "finished_at": 3.0 + number,
    }
    return SentenceTimeline(**times, worker=1, batch_size=number + 1, steps=10)


def record_of(*counts: int, unfinished: int = 0) -> CallRecord:
    """Return the record of a call with searches of these numbers of sentences."""
    searches = [
        SearchRecord(1.0, 100.0, count + unfinished, [timeline(number) for number in range(count)]) for count in counts
    ]
    record = CallRecord(model="zh-en", version=2, texts=1, characters=9, began_at=0.5, searches=searches)
    record.tokenized_at, record.sentences = 0.75, sum(counts[:1]) + unfinished
    return record


def traced_spans(kept: KeptSpans, *records: CallRecord, traceparent: str = TRACEPARENT, state: str = "") -> list[Span]:
    """Return the spans of an RPC with some calls."""
    span = kept.tracing.begin("service", "Method", {"traceparent": traceparent, "tracestate": state})
    assert span is not None
    for record in records:
        span.add_call(record)
    span.end(time.time_ns(), "OK", 0, {})
    return kept.spans


@pytest.fixture
def kept() -> Iterator[KeptSpans]:
    started = KeptSpans()
    yield started
    started.tracing.close()


def named(spans: list[Span], name: str) -> list[Span]:
    return [span for span in spans if span.name == name]


def nanoseconds(span: Span) -> int:
    length: int = span.end_time_unix_nano - span.start_time_unix_nano
    return length


def test_each_part_of_a_call_is_a_span_as_long_as_the_part(kept: KeptSpans) -> None:
    spans = traced_spans(kept, record_of(2))
    lengths = {name: [nanoseconds(span) for span in named(spans, name)] for name in {span.name for span in spans}}
    lengths.pop("service/Method")
    assert lengths == {
        "tokenize": [pytest.approx(250_000_000, abs=2)],
        "queue": [pytest.approx(2_000_000_000, abs=2)],
        "encode": [pytest.approx(250_000_000, abs=2)] * 2,
        "decode": [pytest.approx(750_000_000, abs=2)] * 2,
    }
    [rpc] = named(spans, "service/Method")
    assert {span.parent_span_id for span in spans if span is not rpc} == {rpc.span_id}


def test_sentences_over_the_limit_are_one_span_together(kept: KeptSpans) -> None:
    spans = traced_spans(kept, record_of(MAX_SENTENCES + 3))
    assert len(named(spans, "decode")) == len(named(spans, "encode")) == MAX_SENTENCES
    [others] = map(attributes_of, named(spans, "other sentences"))
    assert [others[f"xuanzang.{each}"] for each in ("sentences", "max_batch_size", "steps")] == [
        3,
        MAX_SENTENCES + 3,
        30,
    ]


def test_a_long_stream_has_a_bounded_number_of_spans(kept: KeptSpans) -> None:
    spans = traced_spans(kept, *[record_of(1)] * 1000)
    assert len(named(spans, "decode")) == MAX_SENTENCES
    assert len(spans) == 1 + 4 * MAX_SENTENCES
    # Calls without sentences use up the limit, too.
    assert len(traced_spans(kept, *[record_of()] * 1000)) <= len(spans) + 1 + 4 * MAX_SENTENCES


def test_the_two_searches_of_alternatives_number_their_sentences_on(kept: KeptSpans) -> None:
    spans = traced_spans(kept, record_of(2, 3))
    assert len(named(spans, "queue")) == 2
    numbers = [attributes_of(span)["xuanzang.sentence"] for span in named(spans, "decode")]
    assert numbers == [0, 1, 2, 3, 4]


def test_the_queue_of_a_call_that_was_given_up_ends_with_it(kept: KeptSpans) -> None:
    [queue] = named(traced_spans(kept, record_of(1, unfinished=1)), "queue")
    assert nanoseconds(queue) == pytest.approx(99_000_000_000, abs=2)


def test_spans_lie_in_the_trace_of_the_caller(kept: KeptSpans) -> None:
    spans = traced_spans(kept, record_of(1), state="vendor=1")
    assert {(span.trace_id.hex(), span.trace_state) for span in spans} == {(TRACE_ID, "vendor=1")}
    [rpc] = named(spans, "service/Method")
    assert rpc.parent_span_id.hex() == SPAN_ID
    assert len({span.span_id for span in spans}) == len(spans) == 5
    # A state that is too long is not kept.
    *_, rpc = traced_spans(kept, state="vendor=" + "x" * 600)
    assert (rpc.parent_span_id.hex(), rpc.trace_state) == (SPAN_ID, "")


@pytest.mark.parametrize("traceparent", ["", "00-0-0-00", "我有", f"{TRACEPARENT}-more", f"00-{'0' * 32}-{SPAN_ID}-01"])
def test_a_trace_context_that_is_not_valid_begins_a_new_trace(kept: KeptSpans, traceparent: str) -> None:
    [rpc] = traced_spans(kept, traceparent=traceparent)
    assert not rpc.parent_span_id
    assert rpc.trace_id.hex() != TRACE_ID


def test_a_caller_who_does_not_sample_is_not_traced(kept: KeptSpans) -> None:
    assert kept.tracing.begin("service", "Method", {"traceparent": f"{TRACEPARENT[:-1]}0"}) is None


@pytest.mark.parametrize(
    ("variable", "chosen", "are_traced"),
    [
        ("OTEL_TRACES_SAMPLER", "always_off", False),
        ("OTEL_TRACES_SAMPLER", "always_on", True),
        ("OTEL_SDK_DISABLED", "true", False),
    ],
)
def test_the_environment_decides(monkeypatch: Any, variable: str, chosen: str, are_traced: bool) -> None:
    monkeypatch.setenv(variable, chosen)
    kept = KeptSpans()
    assert (kept.tracing.begin("service", "Method", {}) is not None) is are_traced
    kept.tracing.close()


WITH_STATE: dict[str, str | bytes] = {"traceparent": TRACEPARENT, "tracestate": "vendor=1"}


def trace(kept: KeptSpans, *metadata: dict[str, str | bytes]) -> None:
    """Trace an RPC for each metadata, which end in turn well and badly."""
    record = CallRecord(model="zh-en", version=2, texts=1, characters=9, began_at=0.5)
    record.searches.append(SearchRecord(1.0, 4.0, 1, [dataclasses.replace(timeline(0), batch_size=2**40)]))
    for number, each in enumerate(metadata):
        span = kept.tracing.begin("service", "Method", each)
        assert span is not None
        span.add_call(record)
        code = (("OK", 0), ("INTERNAL", 13))[number % 2]
        span.end(time.time_ns(), *code, {"xuanzang.model": "zh-en", "xuanzang.texts": 1})


def as_the_sdk_has_it(span: Span) -> ReadableSpan:
    """Return a span of the SDK with the facts of one that was sent."""
    trace_id, state = int.from_bytes(span.trace_id, "big"), TraceState.from_header([span.trace_state])
    is_remote = bool(span.flags & 0x200)
    parent_id = int.from_bytes(span.parent_span_id, "big")
    ids = ((int.from_bytes(span.span_id, "big"), False), (parent_id, is_remote))
    own, parent = (SpanContext(trace_id, number, remote, TraceFlags(1), state) for number, remote in ids)
    return ReadableSpan(
        span.name,
        context=own,
        parent=parent if parent_id else None,
        attributes=attributes_of(span),
        kind=SpanKind(span.kind - 1),
        status=Status(StatusCode(span.status.code), span.status.message or None),
        start_time=span.start_time_unix_nano,
        end_time=span.end_time_unix_nano,
    )


def test_spans_are_encoded_as_the_sdk_encodes_them(kept: KeptSpans) -> None:
    trace(kept, {}, {}, {"traceparent": TRACEPARENT}, WITH_STATE)
    spans = kept.spans
    assert len(spans) == 16
    [of_sdk] = encode_spans([as_the_sdk_has_it(span) for span in spans]).resource_spans[0].scope_spans
    assert list(of_sdk.spans) == spans
    assert [span.status.message for span in spans if span.status.code] == ["INTERNAL"] * 2
    assert [span.flags for span in spans if span.kind == Span.SPAN_KIND_SERVER] == [0x100, 0x100, 0x300, 0x300]


def test_the_resource_and_the_scope_are_in_each_message(kept: KeptSpans) -> None:
    trace(kept, {})
    assert kept.spans
    trace(kept, {})
    assert len(kept.spans) == 8
    for message in kept.messages:
        [resource] = message.resource_spans
        assert "xuanzang-server" in {each.value.string_value for each in resource.resource.attributes}
        assert [scope.scope.name for scope in resource.scope_spans] == ["xuanzang-server"]


def test_a_message_has_a_bounded_number_of_spans(kept: KeptSpans) -> None:
    trace(kept, *[{}] * MAX_SPANS)
    assert len(kept.spans) == 4 * MAX_SPANS
    counts = [len(message.resource_spans[0].scope_spans[0].spans) for message in kept.messages]
    assert max(counts) <= MAX_SPANS
