"""Traces by OpenTelemetry: the sampler, the exporter, and the span of each RPC. Needs the extra `otel`.

The SDK reads its settings from its own environment variables: OTEL_EXPORTER_OTLP_*, OTEL_SERVICE_NAME,
OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG and OTEL_BSP_*.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import version
from typing import cast

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NoOpTracer, SpanKind, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from xuanzang.server.observation.span_exporter import SpanExporter
from xuanzang.server.observation.spans import Attributes, RpcSpan

_NAME = "xuanzang-server"
# More than W3C asks to be passed on; vendors keep their own facts there.
_MAX_TRACESTATE_CHARACTERS = 512
# The last spans are lost if the collector does not take them in this time.
_CLOSE_SECONDS = 5.0

MakeExporter = Callable[[Resource, InstrumentationScope], SpanExporter]
"""Makes the exporter of the spans of a resource and a scope."""


class Tracing:
    """Begins the spans of RPCs, and exports them in a thread of the SDK.

    The SDK samples, and it queues RPCs that have ended; the spans of one are made by the exporter, in its thread. To
    begin and end each in the SDK takes four times the work.
    """

    def __init__(self, make_exporter: MakeExporter = SpanExporter) -> None:
        """Start the SDK; ValueError: an environment variable of OpenTelemetry is not valid."""
        self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        scope = InstrumentationScope(_NAME, version(_NAME))
        self._is_off = isinstance(self._provider.get_tracer(_NAME), NoOpTracer)
        self._ids, self._sampler = self._provider.id_generator, self._provider.sampler
        self._processor = BatchSpanProcessor(make_exporter(self._provider.resource, scope))
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, service: str, method: str, metadata: Mapping[str, str | bytes]) -> RpcSpan | None:
        """Begin the span of an RPC, in the trace of its caller if W3C's `traceparent` in the metadata names one."""
        if self._is_off:
            return None
        around = self._propagator.extract(_trace_headers(metadata)) if "traceparent" in metadata else None
        caller = get_current_span(around).get_span_context() if around else INVALID_SPAN_CONTEXT
        parent = caller if caller.is_valid else None
        name, attributes = _identity(service, method)
        trace_id = self._ids.generate_trace_id() if parent is None else parent.trace_id
        sampled = self._sampler.should_sample(around, trace_id, name, SpanKind.SERVER, attributes)
        if sampled.decision is not Decision.RECORD_AND_SAMPLE:
            return None
        return RpcSpan(
            name=name,
            trace_id=trace_id,
            span_id=self._ids.generate_span_id(),
            trace_state=sampled.trace_state,
            parent_id=None if parent is None else parent.span_id,
            attributes=sampled.attributes,
            export=self._export,
        )

    def flush(self) -> None:
        """Export the spans that have ended."""
        self._processor.force_flush()

    def close(self) -> None:
        """Export what has ended, within a few seconds."""
        # The SDK would wait half a minute for a collector that does not answer.
        closing = threading.Thread(target=self._processor.shutdown, name="tracing-close", daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)

    def _export(self, rpc: RpcSpan) -> None:
        # The queue asks an element for its context, and hands it to the exporter as it is.
        self._processor.on_end(cast("ReadableSpan", rpc))


@lru_cache(256)
def _identity(service: str, method: str) -> tuple[str, Attributes]:
    """Return the name of a method's spans, and the attributes that they begin with."""
    return f"{service}/{method}", {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}


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
