"""A collector of traces: what a server exports to it by OTLP over gRPC is kept."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as services
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanContext, use_span


class Collector(services.TraceServiceServicer):
    """Service that keeps the requests of exporters."""

    def __init__(self) -> None:
        self.exports: list[messages.ExportTraceServiceRequest] = []
        self.endpoint = ""

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.exports.append(request)
        return messages.ExportTraceServiceResponse()

    @property
    def service_names(self) -> set[str]:
        """Names of the services that have exported."""
        return {
            attribute.value.string_value
            for export in self.exports
            for each in export.resource_spans
            for attribute in each.resource.attributes
            if attribute.key == "service.name"
        }

    @property
    def spans(self) -> list[Span]:
        """Spans in the order of their beginning."""
        found = [
            span
            for export in self.exports
            for each in export.resource_spans
            for scope in each.scope_spans
            for span in scope.spans
        ]
        return sorted(found, key=lambda span: span.start_time_unix_nano)

    def below(self, parent: Span | SpanContext) -> list[Span]:
        """Return the children of a span, which are in its trace."""
        if isinstance(parent, SpanContext):
            trace_id, span_id = parent.trace_id.to_bytes(16, "big"), parent.span_id.to_bytes(8, "big")
        else:
            trace_id, span_id = parent.trace_id, parent.span_id
        return [span for span in self.spans if (span.trace_id, span.parent_span_id) == (trace_id, span_id)]


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector on a free port."""
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    services.add_TraceServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    collector.endpoint = f"http://127.0.0.1:{port}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(grace=None).wait()


@contextmanager
def traced_caller() -> Iterator[SpanContext]:
    """Run in a sampled span of a program that calls the server, and yield its context."""
    provider = TracerProvider(shutdown_on_exit=False)
    span = provider.get_tracer("caller").start_span("work")
    with use_span(span, end_on_exit=True):
        yield span.get_span_context()


def attributes_of(span: Span) -> dict[str, Any]:
    """Return the attributes of an exported span."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value") or "") for each in span.attributes}
