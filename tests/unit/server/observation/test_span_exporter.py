from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from kept_spans import KeptSpans
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState
from otlp import attributes_of

from xuanzang.server.engine.calls.record import CallRecord, SearchRecord
from xuanzang.server.engine.scheduling.request import SentenceTimeline
from xuanzang.server.observation.tracing import MAX_SPANS

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
WITH_STATE: dict[str, str | bytes] = {"traceparent": TRACEPARENT, "tracestate": "vendor=1"}
TIMELINE = SentenceTimeline(
    queued_at=1.0, taken_at=2.0, encoded_at=3.0, finished_at=4.0, worker=0, batch_size=2**40, steps=5
)


@pytest.fixture
def kept() -> Iterator[KeptSpans]:
    started = KeptSpans()
    yield started
    started.tracing.close()


def trace(kept: KeptSpans, *metadata: dict[str, str | bytes]) -> None:
    """Trace an RPC for each metadata, which end in turn well and badly."""
    record = CallRecord(model="zh-en", version=2, texts=1, characters=9, began_at=0.5)
    record.searches.append(SearchRecord(1.0, 4.0, 1, [TIMELINE]))
    for number, each in enumerate(metadata):
        span = kept.tracing.begin("service", "Method", each)
        assert span is not None
        span.add_call(record)
        span.end(
            time.time_ns(),
            ("OK", "INTERNAL")[number % 2],
            (0, 13)[number % 2],
            {"xuanzang.model": "zh-en", "xuanzang.texts": 1},
        )


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
