from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from kept_spans import KeptSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from otlp import attributes_of

from xuanzang.server.engine.calls.record import CallRecord, SearchRecord
from xuanzang.server.engine.scheduling.request import SentenceTimeline
from xuanzang.server.observation.spans import MAX_SENTENCES

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"


def timeline(number: int) -> SentenceTimeline:
    return SentenceTimeline(
        queued_at=1.0,
        taken_at=2.0 + number,
        encoded_at=2.25 + number,
        finished_at=3.0 + number,
        worker=1,
        batch_size=number + 1,
        steps=10,
    )


def record_of(*counts: int, unfinished: int = 0) -> CallRecord:
    """Return the record of a call with searches of these numbers of sentences."""
    searches = [
        SearchRecord(1.0, 100.0, count + unfinished, [timeline(number) for number in range(count)]) for count in counts
    ]
    record = CallRecord(model="zh-en", version=2, texts=1, characters=9, began_at=0.5, searches=searches)
    record.tokenized_at, record.sentences = 0.75, sum(counts[:1]) + unfinished
    return record


class Traced:
    """A tracer with an exporter that keeps the spans."""

    def __init__(self) -> None:
        self.kept = KeptSpans()
        self.tracing = self.kept.tracing

    def spans(self, *records: CallRecord, traceparent: str = TRACEPARENT, tracestate: str = "") -> list[Span]:
        """Return the spans of an RPC with these calls."""
        metadata: dict[str, str | bytes] = {"traceparent": traceparent, "tracestate": tracestate}
        span = self.tracing.begin("service", "Method", metadata)
        assert span is not None
        for record in records:
            span.add_call(record)
        span.end(time.time_ns(), "OK", 0, {})
        return self.kept.spans


@pytest.fixture
def traced() -> Iterator[Traced]:
    started = Traced()
    yield started
    started.tracing.close()


def named(spans: list[Span], name: str) -> list[Span]:
    return [span for span in spans if span.name == name]


def nanoseconds(span: Span) -> int:
    length: int = span.end_time_unix_nano - span.start_time_unix_nano
    return length


def test_each_part_of_a_call_is_a_span_as_long_as_the_part(traced: Traced) -> None:
    spans = traced.spans(record_of(2))
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


def test_sentences_over_the_limit_are_one_span_together(traced: Traced) -> None:
    spans = traced.spans(record_of(MAX_SENTENCES + 3))
    assert len(named(spans, "decode")) == len(named(spans, "encode")) == MAX_SENTENCES
    [others] = named(spans, "other sentences")
    assert attributes_of(others) == {
        "xuanzang.sentences": 3,
        "xuanzang.max_batch_size": MAX_SENTENCES + 3,
        "xuanzang.steps": 30,
    }


def test_a_long_stream_has_a_bounded_number_of_spans(traced: Traced) -> None:
    spans = traced.spans(*[record_of(1)] * 1000)
    assert len(named(spans, "decode")) == MAX_SENTENCES
    assert len(spans) == 1 + 4 * MAX_SENTENCES


def test_calls_without_sentences_use_up_the_limit_too(traced: Traced) -> None:
    assert len(traced.spans(*[record_of()] * 1000)) <= 1 + 4 * MAX_SENTENCES


def test_the_two_searches_of_alternatives_number_their_sentences_on(traced: Traced) -> None:
    spans = traced.spans(record_of(2, 3))
    assert len(named(spans, "queue")) == 2
    numbers = [attributes_of(span)["xuanzang.sentence"] for span in named(spans, "decode")]
    assert numbers == [0, 1, 2, 3, 4]


def test_the_queue_of_a_call_that_was_given_up_ends_with_it(traced: Traced) -> None:
    [queue] = named(traced.spans(record_of(1, unfinished=1)), "queue")
    assert nanoseconds(queue) == pytest.approx(99_000_000_000, abs=2)


def test_spans_lie_in_the_trace_of_the_caller(traced: Traced) -> None:
    spans = traced.spans(record_of(1), tracestate="vendor=1")
    assert {(span.trace_id.hex(), span.trace_state) for span in spans} == {(TRACE_ID, "vendor=1")}
    [rpc] = named(spans, "service/Method")
    assert rpc.parent_span_id.hex() == SPAN_ID
    assert len({span.span_id for span in spans}) == len(spans) == 5


@pytest.mark.parametrize("traceparent", ["", "00-0-0-00", "我有", f"{TRACEPARENT}-more", f"00-{'0' * 32}-{SPAN_ID}-01"])
def test_a_trace_context_that_is_not_valid_begins_a_new_trace(traced: Traced, traceparent: str) -> None:
    [rpc] = traced.spans(traceparent=traceparent)
    assert not rpc.parent_span_id
    assert rpc.trace_id.hex() != TRACE_ID


def test_a_tracestate_that_is_too_long_is_not_kept(traced: Traced) -> None:
    [rpc] = traced.spans(tracestate="vendor=" + "x" * 600)
    assert rpc.parent_span_id.hex() == SPAN_ID
    assert not rpc.trace_state


def test_a_caller_who_does_not_sample_is_not_traced(traced: Traced) -> None:
    assert traced.tracing.begin("service", "Method", {"traceparent": f"{TRACEPARENT[:-1]}0"}) is None


def test_a_server_with_the_sdk_turned_off_traces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert KeptSpans().tracing.begin("service", "Method", {"traceparent": TRACEPARENT}) is None


@pytest.mark.parametrize(("sampler", "are_traced"), [("always_off", False), ("always_on", True)])
def test_the_sampler_of_the_environment_decides(
    monkeypatch: pytest.MonkeyPatch, sampler: str, are_traced: bool
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    kept = KeptSpans()
    assert (kept.tracing.begin("service", "Method", {}) is not None) is are_traced
    kept.tracing.close()
