"""Conversion of gRPC errors and Status messages to the errors of this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

import grpc
from google.protobuf.message import DecodeError

from xuanzang.client import _errors as errors
from xuanzang.client._errors import StatusCode
from xuanzang.translation.v1 import status_pb2

_DETAILS_KEY = "grpc-status-details-bin"

_ERROR_TYPES: Mapping[StatusCode, type[errors.TranslationError]] = MappingProxyType(
    {
        StatusCode.CANCELLED: errors.CallCancelledError,
        StatusCode.INVALID_ARGUMENT: errors.InvalidRequestError,
        StatusCode.OUT_OF_RANGE: errors.InvalidRequestError,
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
    retry_after, violations = _details(status)
    error_type = _ERROR_TYPES.get(code, errors.ServerFaultError)
    return error_type(status.message or code.name, code=code, retry_after=retry_after, violations=violations)


@contextmanager
def mapped_errors() -> Iterator[None]:
    """Raise gRPC errors as errors of this package, with the original as the cause."""
    try:
        yield
    except grpc.RpcError as error:
        raise error_from_status(_status_of(error)) from error


def _status_of(error: grpc.RpcError) -> status_pb2.Status:
    if not isinstance(error, grpc.Call | grpc.aio.AioRpcError):
        return status_pb2.Status(code=StatusCode.UNKNOWN.value, message=str(error))
    status = status_pb2.Status(code=error.code().value[0], message=error.details() or "")
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            try:
                status.details.extend(status_pb2.Status.FromString(value).details)
            except DecodeError:
                break  # a proxy may have replaced it; code and message are valid without it
    return status


def _details(status: status_pb2.Status) -> tuple[float | None, tuple[errors.FieldViolation, ...]]:
    retry_after: float | None = None
    violations: list[errors.FieldViolation] = []
    for detail in status.details:
        # On the wire these are google.rpc types; our messages have the same encoding.
        kind = detail.type_url.rpartition("/")[2]
        try:
            if kind == "google.rpc.RetryInfo":
                retry_after = status_pb2.RetryInfo.FromString(detail.value).retry_delay.ToTimedelta().total_seconds()
            elif kind == "google.rpc.BadRequest":
                faults = status_pb2.BadRequest.FromString(detail.value).field_violations
                violations += [errors.FieldViolation(field=each.field, description=each.description) for each in faults]
        except DecodeError:
            continue
    return retry_after, tuple(violations)
