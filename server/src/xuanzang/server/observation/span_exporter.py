"""The exporter of RPCs: makes their spans and sends them by OTLP over gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import INVALID_SPAN_CONTEXT
from typing_extensions import override

from xuanzang.server.observation.span_encoding import encoded_spans
from xuanzang.server.observation.spans import RpcSpan

MAX_SPANS = 512
"""Maximum spans of a message, as the SDK has it: collectors refuse messages over 4 MB."""


class SpanExporter(OTLPSpanExporter):
    """Sends the spans of RPCs by OTLP over gRPC, with the retries and settings of the SDK."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        super().__init__()
        self._ids = RandomIdGenerator()
        # All spans are of one resource and one scope, which the SDK writes with any span.
        nothing = ReadableSpan("", context=INVALID_SPAN_CONTEXT, resource=resource, instrumentation_scope=scope)
        self._around = encode_spans([nothing])
        self._around.resource_spans[0].scope_spans[0].ClearField("spans")

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send the spans of RPCs, which the queue of the SDK takes for spans."""
        new_id = self._ids.generate_span_id
        made = [span for rpc in cast("Sequence[RpcSpan]", spans) for span in encoded_spans(rpc, new_id)]
        messages = [made[first : first + MAX_SPANS] for first in range(0, len(made), MAX_SPANS)]
        results = [self._send(message) for message in messages]
        return next((result for result in results if result is not SpanExportResult.SUCCESS), SpanExportResult.SUCCESS)

    def _send(self, spans: Sequence[bytes]) -> SpanExportResult:
        # The SDK hands them on to `_translate_data`, once for each try.
        result: SpanExportResult = self._export(cast("Sequence[ReadableSpan]", spans))
        return result

    @override
    def _translate_data(self, data: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
        request = ExportTraceServiceRequest()
        request.CopyFrom(self._around)
        request.resource_spans[0].scope_spans[0].MergeFromString(b"".join(cast("Sequence[bytes]", data)))
        return request
