"""Traces by OpenTelemetry: the sampler, the span of each RPC, and what encodes and sends them. Needs the extra `otel`.

The SDK reads its settings from its own environment variables: OTEL_EXPORTER_OTLP_*, OTEL_SERVICE_NAME,
OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG and OTEL_BSP_*.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from struct import Struct
from typing import cast

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NoOpTracer, SpanKind, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from typing_extensions import override

from xuanzang.server.observation.spans import Attributes, RpcSpan

_NAME = "xuanzang-server"
# More than W3C asks to be passed on; vendors keep their own facts there.
_MAX_TRACESTATE_CHARACTERS = 512
# The last spans are lost if the collector does not take them in this time.
_CLOSE_SECONDS = 5.0
# Kinds and flags as OTLP has them.
_SERVER, _INTERNAL = trace_pb2.Span.SPAN_KIND_SERVER, trace_pb2.Span.SPAN_KIND_INTERNAL
_HAS_IS_REMOTE: int = trace_pb2.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
_IS_REMOTE: int = trace_pb2.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
_ERROR, _UNSET = trace_pb2.Status.STATUS_CODE_ERROR, trace_pb2.Status()
_NANOSECONDS = 1e9
# Fields as protobuf writes them: key, and length of what follows or a fixed width.
_SPAN_IN_SCOPE = trace_pb2.ScopeSpans.SPANS_FIELD_NUMBER << 3 | 2
_TRACE_ID = bytes((trace_pb2.Span.TRACE_ID_FIELD_NUMBER << 3 | 2, 16))
_SPAN_ID = bytes((trace_pb2.Span.SPAN_ID_FIELD_NUMBER << 3 | 2, 8))
_PARENT_ID = bytes((trace_pb2.Span.PARENT_SPAN_ID_FIELD_NUMBER << 3 | 2, 8))
_START = bytes((trace_pb2.Span.START_TIME_UNIX_NANO_FIELD_NUMBER << 3 | 1,))
_END = bytes((trace_pb2.Span.END_TIME_UNIX_NANO_FIELD_NUMBER << 3 | 1,))
_TIMES = Struct("<cQcQ").pack
MAX_SPANS = 512
"""Maximum spans of a message, as the SDK has it: collectors refuse messages over 4 MB."""


def encoded_spans(rpc: RpcSpan, new_id: Callable[[], int]) -> Iterator[bytes]:
    """Encode the span of an RPC and those of its parts, each as a field of OTLP's `ScopeSpans`."""
    trace = _TRACE_ID + rpc.trace_id.to_bytes(16, "big")
    if rpc.trace_state:
        trace += trace_pb2.Span(trace_state=rpc.trace_state.to_header()).SerializeToString()
    span_id = rpc.span_id.to_bytes(8, "big")
    own = trace + _SPAN_ID + span_id
    if rpc.parent_id is not None:
        own += _PARENT_ID + rpc.parent_id.to_bytes(8, "big")
    kind = _kind(rpc.name, is_server=True, is_remote=rpc.parent_id is not None, fault=rpc.fault)
    attributes = b"".join([_attribute(key, value) for key, value in rpc.attributes.items()])
    yield _field(own + kind + _TIMES(_START, rpc.began_at, _END, rpc.ended_at) + attributes)
    shared = trace + _PARENT_ID + span_id + _SPAN_ID
    for part in rpc.parts:
        began, ended = (
            round(part.began_at * _NANOSECONDS) + rpc.offset,
            round(part.ended_at * _NANOSECONDS) + rpc.offset,
        )
        times, facts = _TIMES(_START, began, _END, ended), _facts(part.name, part.attributes)
        yield _field(shared + new_id().to_bytes(8, "big") + times + facts)


def _field(body: bytes) -> bytes:
    return _header(len(body)) + body


@lru_cache(4096)
def _header(length: int) -> bytes:
    """Encode the key of a span and its length, seven bits a byte, the lowest first."""
    header = bytearray((_SPAN_IN_SCOPE,))
    while length > 0x7F:
        header.append(length & 0x7F | 0x80)
        length >>= 7
    header.append(length)
    return bytes(header)


@lru_cache(1024)
def _kind(name: str, *, is_server: bool = False, is_remote: bool = False, fault: str = "") -> bytes:
    flags = _HAS_IS_REMOTE | _IS_REMOTE if is_remote else _HAS_IS_REMOTE
    kind = _SERVER if is_server else _INTERNAL
    status = trace_pb2.Status(code=_ERROR, message=fault) if fault else _UNSET
    return trace_pb2.Span(name=name, kind=kind, flags=flags, status=status).SerializeToString()


@lru_cache(8192)
def _facts(name: str, attributes: tuple[tuple[str, int], ...]) -> bytes:
    """Encode the name and the attributes of a part."""
    return _kind(name) + b"".join([_attribute(key, value) for key, value in attributes])


@lru_cache(4096, typed=True)
def _attribute(key: str, value: str | float) -> bytes:
    """Encode an attribute; most are names and small numbers that come again and again."""
    any_value = AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=str(value))
    return trace_pb2.Span(attributes=[KeyValue(key=key, value=any_value)]).SerializeToString()


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
        # The SDK hands them on to `_translate_data`, once for each try.
        results: list[SpanExportResult] = [self._export(cast("Sequence[ReadableSpan]", each)) for each in messages]
        return next((result for result in results if result is not SpanExportResult.SUCCESS), SpanExportResult.SUCCESS)

    @override
    def _translate_data(self, data: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
        request = ExportTraceServiceRequest()
        request.CopyFrom(self._around)
        request.resource_spans[0].scope_spans[0].MergeFromString(b"".join(cast("Sequence[bytes]", data)))
        return request


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
        """Export ended spans, within a few seconds."""
        # The SDK would wait half a minute for a collector that does not answer.
        closing = threading.Thread(target=self._processor.shutdown, name="tracing-close", daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)

    def _export(self, rpc: RpcSpan) -> None:
        # The queue asks an element for its context, and hands it to the exporter unchanged.
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
