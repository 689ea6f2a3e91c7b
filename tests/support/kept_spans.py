"""An exporter that keeps what it would send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from typing_extensions import override

from xuanzang.server.observation.tracing import SpanExporter, Tracing


class KeptSpans:
    """A tracer whose messages to the collector are kept."""

    def __init__(self) -> None:
        self.messages: list[ExportTraceServiceRequest] = []
        self.tracing = Tracing(self._exporter)

    @property
    def spans(self) -> list[Span]:
        """Spans that have ended, as they are sent."""
        self.tracing.flush()
        return [span for message in self.messages for span in message.resource_spans[0].scope_spans[0].spans]

    def _exporter(self, resource: Resource, scope: InstrumentationScope) -> SpanExporter:
        return _Keeping(resource, scope, self.messages)


class _Keeping(SpanExporter):
    def __init__(
        self, resource: Resource, scope: InstrumentationScope, messages: list[ExportTraceServiceRequest]
    ) -> None:
        super().__init__(resource, scope)
        self._messages = messages

    @override
    def _export(self, data: Sequence[Any]) -> SpanExportResult:
        self._messages.append(self._translate_data(data))
        return SpanExportResult.SUCCESS
