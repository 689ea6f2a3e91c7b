"""The exporter of RPCs: makes their spans and sends them by OTLP over gRPC."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import cast

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import INVALID_SPAN_CONTEXT
from typing_extensions import override

from xuanzang.server.observation.spans import Attributes, Part, RpcSpan

MAX_SPANS = 512
"""Maximum spans of a message, as the SDK has it: collectors refuse messages over 4 MB."""

# Kinds and flags as OTLP has them.
_SERVER, _INTERNAL = trace_pb2.Span.SPAN_KIND_SERVER, trace_pb2.Span.SPAN_KIND_INTERNAL
_HAS_IS_REMOTE: int = trace_pb2.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
_IS_REMOTE: int = trace_pb2.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
_ERROR, _UNSET = trace_pb2.Status.STATUS_CODE_ERROR, trace_pb2.Status()
_NANOSECONDS = 1e9


class SpanExporter(OTLPSpanExporter):
    """Sends the spans of RPCs by OTLP over gRPC, with the retries and settings of the SDK."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        """Read the settings of the SDK.

        Args:
            resource: The server.
            scope: What makes the spans.
        """
        super().__init__()
        self._ids = RandomIdGenerator()
        # All spans are of one resource and one scope, which the SDK writes with any span.
        nothing = ReadableSpan("", context=INVALID_SPAN_CONTEXT, resource=resource, instrumentation_scope=scope)
        self._around = encode_spans([nothing])
        self._around.resource_spans[0].scope_spans[0].ClearField("spans")

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send the spans of RPCs, which the queue of the SDK takes for spans."""
        made = [span for rpc in cast("Sequence[RpcSpan]", spans) for span in self._spans_of(rpc)]
        messages = [made[first : first + MAX_SPANS] for first in range(0, len(made), MAX_SPANS)]
        results = [self._send(message) for message in messages]
        return next((result for result in results if result is not SpanExportResult.SUCCESS), SpanExportResult.SUCCESS)

    def _send(self, spans: Sequence[trace_pb2.Span]) -> SpanExportResult:
        # The SDK hands them on to `_translate_data`, once for each try.
        result: SpanExportResult = self._export(cast("Sequence[ReadableSpan]", spans))
        return result

    @override
    def _translate_data(self, data: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
        request = ExportTraceServiceRequest()
        request.CopyFrom(self._around)
        request.resource_spans[0].scope_spans[0].spans.extend(cast("Sequence[trace_pb2.Span]", data))
        return request

    def _spans_of(self, rpc: RpcSpan) -> Iterator[trace_pb2.Span]:
        context, parent = rpc.context, rpc.parent
        trace_id, span_id = context.trace_id.to_bytes(16, "big"), context.span_id.to_bytes(8, "big")
        trace_state = context.trace_state.to_header()
        yield trace_pb2.Span(
            trace_id=trace_id,
            span_id=span_id,
            parent_span_id=b"" if parent is None else parent.span_id.to_bytes(8, "big"),
            trace_state=trace_state,
            flags=_HAS_IS_REMOTE if parent is None else _HAS_IS_REMOTE | _IS_REMOTE,
            name=rpc.name,
            kind=_SERVER,
            start_time_unix_nano=rpc.began_at,
            end_time_unix_nano=rpc.ended_at,
            attributes=_encoded(rpc.attributes),
            status=trace_pb2.Status(code=_ERROR, message=rpc.fault) if rpc.fault else _UNSET,
        )
        for part in rpc.parts:
            yield self._span_of(part, rpc.offset, trace_id, span_id, trace_state)

    def _span_of(
        self, part: Part, offset: int, trace_id: bytes, parent_span_id: bytes, trace_state: str
    ) -> trace_pb2.Span:
        return trace_pb2.Span(
            trace_id=trace_id,
            span_id=self._ids.generate_span_id().to_bytes(8, "big"),
            parent_span_id=parent_span_id,
            trace_state=trace_state,
            flags=_HAS_IS_REMOTE,
            name=part.name,
            kind=_INTERNAL,
            start_time_unix_nano=round(part.began_at * _NANOSECONDS) + offset,
            end_time_unix_nano=round(part.ended_at * _NANOSECONDS) + offset,
            attributes=_encoded(part.attributes),
            status=_UNSET,
        )


def _encoded(attributes: Attributes) -> list[KeyValue]:
    return [_attribute(key, value) for key, value in attributes.items()]


@lru_cache(4096, typed=True)
def _attribute(key: str, value: str | float) -> KeyValue:
    """Encode an attribute; most are names and small numbers that come again and again."""
    if isinstance(value, int):
        return KeyValue(key=key, value=AnyValue(int_value=value))
    return KeyValue(key=key, value=AnyValue(string_value=str(value)))
