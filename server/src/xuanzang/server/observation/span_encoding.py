"""Spans as bytes of OTLP. What comes again and again is encoded once, and the bytes of a span's fields are joined."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from struct import Struct

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from xuanzang.server.observation.spans import Attributes, RpcSpan

# Kinds and flags as OTLP has them.
_SERVER, _INTERNAL = trace_pb2.Span.SPAN_KIND_SERVER, trace_pb2.Span.SPAN_KIND_INTERNAL
_HAS_IS_REMOTE: int = trace_pb2.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
_IS_REMOTE: int = trace_pb2.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
_ERROR, _UNSET = trace_pb2.Status.STATUS_CODE_ERROR, trace_pb2.Status()
_NANOSECONDS = 1e9
# Fields as protobuf writes them: key, and length of what follows or a fixed width.
_SPAN_IN_SCOPE = trace_pb2.ScopeSpans.SPANS_FIELD_NUMBER << 3 | 2
_SPAN_ID = bytes((trace_pb2.Span.SPAN_ID_FIELD_NUMBER << 3 | 2, 8))
_START = bytes((trace_pb2.Span.START_TIME_UNIX_NANO_FIELD_NUMBER << 3 | 1,))
_END = bytes((trace_pb2.Span.END_TIME_UNIX_NANO_FIELD_NUMBER << 3 | 1,))
_TIMES = Struct("<cQcQ").pack


def encoded_spans(rpc: RpcSpan, new_id: Callable[[], int]) -> Iterator[bytes]:
    """Encode the span of an RPC and those of its parts, each as a field of OTLP's `ScopeSpans`.

    Args:
        rpc: RPC that has ended.
        new_id: Maker of ids for the parts.
    """
    context, parent = rpc.context, rpc.parent
    trace_id, state = context.trace_id.to_bytes(16, "big"), context.trace_state.to_header()
    trace = trace_pb2.Span(trace_id=trace_id, trace_state=state).SerializeToString()
    span_id = context.span_id.to_bytes(8, "big")
    above = b"" if parent is None else parent.span_id.to_bytes(8, "big")
    own = trace + trace_pb2.Span(span_id=span_id, parent_span_id=above).SerializeToString()
    kind = _kind(rpc.name, is_server=True, is_remote=parent is not None, fault=rpc.fault)
    yield _field(own, kind, _TIMES(_START, rpc.began_at, _END, rpc.ended_at), *_encoded(rpc.attributes))
    shared = trace + trace_pb2.Span(parent_span_id=span_id).SerializeToString() + _SPAN_ID
    for part in rpc.parts:
        began, ended = (round(seconds * _NANOSECONDS) + rpc.offset for seconds in (part.began_at, part.ended_at))
        times = _TIMES(_START, began, _END, ended)
        yield _field(shared, new_id().to_bytes(8, "big"), _kind(part.name), times, *_encoded(part.attributes))


def _field(*parts: bytes) -> bytes:
    body = b"".join(parts)
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


def _encoded(attributes: Attributes) -> Iterator[bytes]:
    return (_attribute(key, value) for key, value in attributes.items())


@lru_cache(4096, typed=True)
def _attribute(key: str, value: str | float) -> bytes:
    """Encode an attribute; most are names and small numbers that come again and again."""
    any_value = AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=str(value))
    return trace_pb2.Span(attributes=[KeyValue(key=key, value=any_value)]).SerializeToString()
