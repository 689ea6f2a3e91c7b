"""Conversion of gRPC errors and Status messages to the errors of this package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from xuanzang.client import _errors as errors
from xuanzang.client._calls.metadata import REQUEST_ID
from xuanzang.client._errors import StatusCode
from xuanzang.client._reliability.tries import Fault, FaultKind
from xuanzang.translation.v1 import status_pb2

WRITE_MET_THE_END = "Internal error from Core"
"""Message that grpc.aio substitutes for the real status when a write meets the end of a stream."""

_DETAILS_KEY = "grpc-status-details-bin"
_PUSHBACK_KEY = "grpc-retry-pushback-ms"

# Prefixes of gRPC's own messages with UNAVAILABLE; a message of a server has none of them.
_UNREACHED = ("connections to all backends failing", "failed to connect to all addresses", "errors resolving", "DNS ")
_BROKEN = ("Stream removed", "Socket closed", "recvmsg:", "Too many pings", "GOAWAY received", "Connection reset")
_SILENT = "ping timeout"
# A server that has no room for more calls resets their streams unread: REFUSED_STREAM of HTTP/2. It names no delay.
_REFUSED = "RST_STREAM with error code 7"
_REFUSED_SECONDS = 0.1
# Ending of a call whose server a proxy has lost after the first answer: INTERNAL_ERROR of HTTP/2.
_LOST = "RST_STREAM with error code 2"
# A certificate does not become valid by trying again, nor one of the client's PEM texts.
_UNTRUSTED = {
    "CERTIFICATE_VERIFY_FAILED": "the server's certificate is not signed by an authority in tls.root_certificates "
    "(--tls-ca)",
    "Hostname Verification Check failed": "the server's certificate is not valid for its address; tls.server_name "
    "(--tls-server-name) says for which name it is",
    "Failed to create security handshaker": "a certificate or private key of tls (--tls-ca, --tls-cert, --tls-key) is "
    "not valid PEM",
}

_KINDS: Mapping[StatusCode, FaultKind] = MappingProxyType(
    {
        # A stopping server's gRPC gives it to calls that it has not dispatched.
        StatusCode.CANCELLED: FaultKind.BROKEN,
        StatusCode.DEADLINE_EXCEEDED: FaultKind.LATE,
        StatusCode.ABORTED: FaultKind.IDLE,
    }
)

# Reason of an ErrorInfo.
_UNSERVED = "LANGUAGE_NOT_SERVED"

_ERROR_TYPES: Mapping[StatusCode, type[errors.TranslationError]] = MappingProxyType(
    {
        StatusCode.CANCELLED: errors.CallCancelledError,
        StatusCode.INVALID_ARGUMENT: errors.InvalidRequestError,
        StatusCode.OUT_OF_RANGE: errors.InvalidRequestError,
        StatusCode.ALREADY_EXISTS: errors.InvalidRequestError,
        StatusCode.NOT_FOUND: errors.ModelNotFoundError,
        StatusCode.UNAUTHENTICATED: errors.AccessDeniedError,
        StatusCode.PERMISSION_DENIED: errors.AccessDeniedError,
        StatusCode.RESOURCE_EXHAUSTED: errors.OverloadedError,
        StatusCode.UNAVAILABLE: errors.ServerUnavailableError,
        StatusCode.DEADLINE_EXCEEDED: errors.DeadlineExceededError,
    }
)


def error_from_status(status: status_pb2.Status) -> errors.TranslationError:
    """Return the error that a Status message describes; unknown codes become UNKNOWN, unknown details are ignored."""
    try:
        code = StatusCode(status.code)
    except ValueError:
        code = StatusCode.UNKNOWN
    error_type = _ERROR_TYPES.get(code, errors.ServerFaultError)
    message, violations = status.message or code.name, []
    for fault in (each for detail in _details(status, "BadRequest") for each in detail.field_violations):
        # Settings are a message of the wire; here they are keyword arguments.
        field = fault.field.removeprefix("settings.")
        message = message.replace(f"{fault.field}: ", f"{field}: ")
        violations.append(errors.FieldViolation(field=field, description=fault.description))
    about: dict[str, Any] = {"code": code, "retry_after": _retry_after(status), "violations": tuple(violations)}
    info = next((each for each in _details(status, "ErrorInfo") if each.reason == _UNSERVED), None)
    return _unserved(message, info, about) if info else error_type(message, **about)


def _unserved(message: str, info: status_pb2.ErrorInfo, about: Mapping[str, Any]) -> errors.UnservedLanguageError:
    error = errors.UnservedLanguageError(message, **about)
    error.detected_languages, error.served_languages = (
        tuple(filter(None, info.metadata[f"{kind}_languages"].split(","))) for kind in ("detected", "served")
    )
    return error


@contextmanager
def about_glossaries() -> Iterator[None]:
    """Raise GlossaryNotFoundError where a call about glossaries raises ModelNotFoundError."""
    try:
        yield
    except errors.ModelNotFoundError as error:
        raise errors.GlossaryNotFoundError(error.message, code=error.code, request_id=error.request_id) from error


def mapped_error(error: grpc.RpcError, *, causes: str = "") -> errors.TranslationError:
    """Return the error of this package that a gRPC error becomes.

    Args:
        causes: What keeps the client from servers that it has never reached, if it is known.
    """
    status = _status_of(error)
    if causes and status.message.startswith(_UNREACHED):
        status.message = f"no server answers: {causes}"
    hint = next((hint for reason, hint in _UNTRUSTED.items() if reason in status.message), None)
    if hint:
        status.message = f"{hint}: {status.message.rpartition('last error: ')[2]}"
    mapped = error_from_status(status)
    mapped.request_id = next((str(value) for key, value in _trailers(error) if key == REQUEST_ID), None)
    return mapped


def fault_of(error: grpc.RpcError) -> Fault:
    """Return the kind of failure of a try, which decides about another."""
    status = _status_of(error)
    code, message = StatusCode(status.code), status.message
    if code is StatusCode.RESOURCE_EXHAUSTED:
        delay = _delay_of(error, status)
        if delay is None:
            return Fault(kind=FaultKind.FINAL)
        return Fault(kind=FaultKind.LIMITED if _is_of_quota(status) else FaultKind.OVERLOADED, delay=delay)
    if code is StatusCode.UNAVAILABLE and _REFUSED in message:
        return Fault(kind=FaultKind.OVERLOADED, message=message, delay=_REFUSED_SECONDS)
    if message.startswith(_UNREACHED):
        return Fault(kind=_kind_of(code, message), message=message.rpartition("last error: ")[2])
    return Fault(kind=_kind_of(code, message), message=message)


def _kind_of(code: StatusCode, message: str) -> FaultKind:
    if message == WRITE_MET_THE_END:
        return FaultKind.BROKEN
    if code in _KINDS:
        return _KINDS[code]
    if code is StatusCode.INTERNAL and message.startswith("Stream removed") and _LOST in message:
        return FaultKind.BROKEN
    if code is not StatusCode.UNAVAILABLE or any(reason in message for reason in _UNTRUSTED):
        return FaultKind.FINAL
    if message.startswith(_BROKEN):
        return FaultKind.SILENT if _SILENT in message else FaultKind.BROKEN
    return FaultKind.UNREACHED if message.startswith(_UNREACHED) else FaultKind.REFUSED


def _delay_of(error: grpc.RpcError, status: status_pb2.Status) -> float | None:
    """Return the seconds until the next try that an overloaded server asks for; None: no further try."""
    for key, value in _trailers(error):
        if key == _PUSHBACK_KEY and isinstance(value, str):
            # gRFC A6: whatever is no number of milliseconds forbids a retry.
            return int(value) / 1000 if value.isdecimal() else None
    return _retry_after(status)


def _status_of(error: grpc.RpcError) -> status_pb2.Status:
    if not isinstance(error, grpc.Call | grpc.aio.AioRpcError):
        return status_pb2.Status(code=StatusCode.UNKNOWN.value, message=str(error))
    status = status_pb2.Status(code=error.code().value[0], message=error.details() or "")
    for key, value in _trailers(error):
        if key == _DETAILS_KEY and isinstance(value, bytes):
            try:
                status.details.extend(status_pb2.Status.FromString(value).details)
            except DecodeError:
                break  # a proxy may have replaced it; code and message are valid without it
    return status


def _trailers(error: grpc.RpcError) -> Iterable[tuple[str, str | bytes]]:
    return error.trailing_metadata() or () if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else ()


def _is_of_quota(status: status_pb2.Status) -> bool:
    """Return whether the caller has used up a quota, so that the server may have time for others."""
    return any(detail.type_url.rpartition("/")[2] == "google.rpc.QuotaFailure" for detail in status.details)


def _retry_after(status: status_pb2.Status) -> float | None:
    """Return the seconds until the next try that the details ask for; None if they ask for none."""
    delays = [each.retry_delay for each in _details(status, "RetryInfo")]
    return max(0.0, delays[-1].seconds + delays[-1].nanos / 1e9) if delays else None


def _details(status: status_pb2.Status, name: str) -> Iterator[Any]:
    """Yield the details of one type of google.rpc; our messages have the same encoding."""
    for detail in status.details:
        if detail.type_url.rpartition("/")[2] == f"google.rpc.{name}":
            with suppress(DecodeError):
                yield getattr(status_pb2, name).FromString(detail.value)
