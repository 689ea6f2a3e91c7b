from __future__ import annotations

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from xuanzang.server.engine.scheduling.call_record import CallRecord, SearchRecord
from xuanzang.server.engine.scheduling.timeline import SentenceTimeline
from xuanzang.server.observation.span_exporter import SpanExporter
from xuanzang.server.observation.tracing import Tracing

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TIMELINE = SentenceTimeline(
    queued_at=1.0, taken_at=2.0, encoded_at=3.0, finished_at=4.0, worker=0, batch_size=2**40, steps=5
)


def spans_of_rpcs(*metadata: dict[str, str | bytes]) -> list[ReadableSpan]:
    """Return the spans of an RPC for each metadata, which end in turn well and badly."""
    kept = InMemorySpanExporter()
    tracing = Tracing(kept)
    record = CallRecord(model="zh-en", version=2, texts=1, characters=9, began_at=0.5)
    record.searches.append(SearchRecord(1.0, 4.0, 1, [TIMELINE]))
    for number, each in enumerate(metadata):
        span = tracing.begin("service", "Method", each)
        assert span is not None
        span.add_call(record)
        span.end(("OK", "INTERNAL")[number % 2], (0, 13)[number % 2], {"xuanzang.model": "zh-en", "xuanzang.texts": 1})
    tracing.flush()
    tracing.close()
    return list(kept.get_finished_spans())


def test_spans_are_encoded_as_the_sdk_encodes_them() -> None:
    with_state: dict[str, str | bytes] = {"traceparent": TRACEPARENT, "tracestate": "vendor=1"}
    spans = spans_of_rpcs({}, {}, {"traceparent": TRACEPARENT}, with_state)
    assert len(spans) == 16
    assert SpanExporter()._translate_data(spans) == encode_spans(spans)
    assert SpanExporter()._translate_data(spans[::-1]) == encode_spans(spans[::-1])
