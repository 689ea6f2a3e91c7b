"""Traces by OpenTelemetry: the sampler, the exporter, and the span of each RPC. Needs the extra `otel`.

The SDK reads its settings from its own environment variables: OTEL_EXPORTER_OTLP_*, OTEL_SERVICE_NAME,
OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG and OTEL_BSP_*.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from importlib.metadata import version

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider, export
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from xuanzang.server.observation.span_exporter import SpanExporter
from xuanzang.server.observation.spans import Part, RpcSpan

_NAME = "xuanzang-server"
# More than W3C asks to be passed on; vendors keep their own facts there.
_MAX_TRACESTATE_CHARACTERS = 512
# The last spans are lost if the collector does not take them in this time.
_CLOSE_SECONDS = 5.0


class Tracing:
    """Begins the spans of RPCs, and exports them in a thread of the SDK."""

    def __init__(self, exporter: export.SpanExporter | None = None) -> None:
        """Start the SDK.

        Args:
            exporter: Receiver of the spans; None for one that sends them by OTLP over gRPC.

        Raises:
            ValueError: An environment variable of OpenTelemetry is not valid.
        """
        self._processor = BatchSpanProcessor(SpanExporter() if exporter is None else exporter)
        self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        self._provider.add_span_processor(self._processor)
        self._scope = InstrumentationScope(_NAME, version(_NAME))
        self._tracer = self._provider.get_tracer(_NAME, version(_NAME))
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, service: str, method: str, metadata: Mapping[str, str | bytes]) -> RpcSpan | None:
        """Begin the span of an RPC, in the trace of its caller if the caller has one.

        Args:
            service: Full name of the service.
            method: Name of the method.
            metadata: Metadata of the RPC, of which W3C's `traceparent` and `tracestate` are read.

        Returns:
            The span; None if it is not sampled.
        """
        parent = self._propagator.extract(_trace_headers(metadata)) if "traceparent" in metadata else None
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
        span = self._tracer.start_span(f"{service}/{method}", parent, SpanKind.SERVER, attributes)
        return RpcSpan(span, self._export) if span.is_recording() else None

    def flush(self) -> None:
        """Export the spans that have ended."""
        self._provider.force_flush()

    def close(self) -> None:
        """Export what has ended, within a few seconds."""
        # The SDK would wait half a minute for a collector that does not answer.
        closing = threading.Thread(target=self._provider.shutdown, name="tracing-close", daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)

    def _export(self, parent: SpanContext, part: Part, offset: int) -> None:
        """Export the span of a part that has ended: a tenth of the work of one that is begun and ended."""
        span_id = self._provider.id_generator.generate_span_id()
        context = SpanContext(parent.trace_id, span_id, False, parent.trace_flags, parent.trace_state)
        span = ReadableSpan(
            part.name,
            context=context,
            parent=parent,
            resource=self._provider.resource,
            attributes=part.attributes,
            instrumentation_scope=self._scope,
            start_time=round(part.began_at * 1e9) + offset,
            end_time=round(part.ended_at * 1e9) + offset,
        )
        self._processor.on_end(span)


def _resource() -> Resource:
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        return resource.merge(Resource({SERVICE_NAME: _NAME}))
    return resource


def _trace_headers(metadata: Mapping[str, str | bytes]) -> dict[str, str]:
    headers = {"traceparent": str(metadata["traceparent"])}
    tracestate = str(metadata.get("tracestate", ""))
    if 0 < len(tracestate) <= _MAX_TRACESTATE_CHARACTERS:
        headers["tracestate"] = tracestate
    return headers
