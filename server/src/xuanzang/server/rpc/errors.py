"""Statuses of errors: one table from error classes to status codes, and their google.rpc details."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from xuanzang.server.access.errors import (
    ModelNotAllowedError,
    NotAWriterError,
    QuotaExceededError,
    UnauthenticatedError,
    WrongRoleError,
)
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine import errors
from xuanzang.translation.v1 import status_pb2

_LOGGER = logging.getLogger(__name__)


class NotReadyError(Exception):
    """The models are still being loaded."""


class NotOfferedError(Exception):
    """A method of another API that this server does not have."""


class IdleRpcError(errors.EngineError):
    """The caller sent no message for too long."""


_CODES: Mapping[type[Exception], grpc.StatusCode] = MappingProxyType(
    {
        errors.InvalidInputError: grpc.StatusCode.INVALID_ARGUMENT,
        errors.UnservedLanguageError: grpc.StatusCode.INVALID_ARGUMENT,
        errors.ModelNotFoundError: grpc.StatusCode.NOT_FOUND,
        errors.ModelStateError: grpc.StatusCode.FAILED_PRECONDITION,
        errors.GlossaryNotFoundError: grpc.StatusCode.NOT_FOUND,
        errors.GlossaryExistsError: grpc.StatusCode.ALREADY_EXISTS,
        errors.GlossaryStateError: grpc.StatusCode.FAILED_PRECONDITION,
        BundleError: grpc.StatusCode.FAILED_PRECONDITION,
        errors.DetectionUnavailableError: grpc.StatusCode.UNIMPLEMENTED,
        errors.ExplanationUnavailableError: grpc.StatusCode.UNIMPLEMENTED,
        errors.MemoryLimitError: grpc.StatusCode.RESOURCE_EXHAUSTED,
        errors.ModelOverloadedError: grpc.StatusCode.RESOURCE_EXHAUSTED,
        errors.OverloadedError: grpc.StatusCode.RESOURCE_EXHAUSTED,
        QuotaExceededError: grpc.StatusCode.RESOURCE_EXHAUSTED,
        errors.DeadlineExceededError: grpc.StatusCode.DEADLINE_EXCEEDED,
        errors.DrainingError: grpc.StatusCode.UNAVAILABLE,
        NotReadyError: grpc.StatusCode.UNAVAILABLE,
        NotOfferedError: grpc.StatusCode.UNIMPLEMENTED,
        IdleRpcError: grpc.StatusCode.ABORTED,
        UnauthenticatedError: grpc.StatusCode.UNAUTHENTICATED,
        WrongRoleError: grpc.StatusCode.PERMISSION_DENIED,
        ModelNotAllowedError: grpc.StatusCode.PERMISSION_DENIED,
        NotAWriterError: grpc.StatusCode.PERMISSION_DENIED,
    }
)

_REASONS: Mapping[type[Exception], str] = MappingProxyType(
    {
        errors.ModelNotFoundError: "model",
        errors.ModelStateError: "model_state",
        errors.GlossaryNotFoundError: "glossary",
        errors.GlossaryExistsError: "glossary",
        errors.GlossaryStateError: "glossary",
        BundleError: "bundle",
        errors.DetectionUnavailableError: "not_offered",
        errors.ExplanationUnavailableError: "not_offered",
        errors.MemoryLimitError: "memory",
        errors.DeadlineExceededError: "deadline",
        errors.DrainingError: "draining",
        NotReadyError: "loading",
        NotOfferedError: "not_offered",
        IdleRpcError: "idle",
        UnauthenticatedError: "key",
        WrongRoleError: "role",
        ModelNotAllowedError: "model_not_allowed",
        NotAWriterError: "not_a_writer",
    }
)
_MAX_FIELDS = 5

_CODES_BY_NUMBER = MappingProxyType({code.value[0]: code for code in grpc.StatusCode})


class Reason(NamedTuple):
    """Why an RPC was refused, for logs: no text of a caller."""

    word: str
    """One of a few words, such as "fields", "queue", "deadline", "quota" or "places"."""
    fields: tuple[str, ...] = ()
    """Faulty fields of the request, the first of them."""

    def facts(self) -> dict[str, object]:
        """Return what a log line says of it."""
        return {"reason": self.word, **({"fields": list(self.fields)} if self.fields else {})}


class Refusal(NamedTuple):
    """Answer to an RPC that is not read."""

    code: grpc.StatusCode
    message: str
    trailers: tuple[tuple[str, str | bytes], ...]
    reason: Reason
    """Why, for logs."""


def refusal_of(error: Exception) -> Refusal:
    """Return the refusal that an error stands for."""
    status = status_of(error)
    return Refusal(code_of(status), status.message, trailers_of(status), reason_of(error))


def reason_of(error: Exception) -> Reason:
    """Return why an error refuses an RPC."""
    match error:
        case errors.InvalidInputError(violations=violations):
            return Reason("fields", tuple(each.field for each in violations[:_MAX_FIELDS]))
        case errors.OverloadedError(reason=word):
            return Reason(word)
        case _:
            return Reason(_REASONS.get(type(error), "internal"))


def status_of(error: Exception, *, request_id: str | None = None) -> status_pb2.Status:
    """Describe an error to the caller; log it with its traceback if it is unexpected.

    Returns:
        Code, message and details; INTERNAL without particulars if the error's class is not in the table.
    """
    code = _CODES.get(type(error))
    if code is None:
        _LOGGER.error("unexpected error", exc_info=error, extra={"request_id": request_id})
        return status_pb2.Status(
            code=_number(grpc.StatusCode.INTERNAL), message="internal error; the server's log has the reason"
        )
    return status_pb2.Status(code=_number(code), message=str(error), details=[_as_any(d) for d in _details(error)])


async def end(
    context: grpc.aio.ServicerContext[object, object],
    status: status_pb2.Status,
    *,
    trailers: tuple[tuple[str, str], ...] = (),
) -> None:
    """End an RPC with a status and its details; a retry delay is also sent in the form that gRPC clients obey.

    Call it while no error is handled, and return from the handler: gRPC ends the task of the RPC then.
    """
    try:
        await context.abort(code_of(status), status.message, (*trailers, *trailers_of(status)))
    except grpc.aio.AbortError as aborted:
        # The context keeps it, to raise it once more; with its traceback it would hold frames, and these the context.
        aborted.__traceback__ = None


def code_of(status: status_pb2.Status) -> grpc.StatusCode:
    """Return the code of a status, as gRPC has it."""
    return _CODES_BY_NUMBER[status.code]


def trailers_of(status: status_pb2.Status) -> tuple[tuple[str, str | bytes], ...]:
    """Return the metadata that carries the details of a status."""
    trailers: list[tuple[str, str | bytes]] = []
    if status.details:
        trailers.append(("grpc-status-details-bin", status.SerializeToString()))
    for detail in status.details:
        retry = status_pb2.RetryInfo()
        if detail.type_url == _as_any(retry).type_url:
            retry.ParseFromString(detail.value)
            trailers.append(("grpc-retry-pushback-ms", str(retry.retry_delay.ToMilliseconds())))
    return tuple(trailers)


def _details(error: Exception) -> list[Message]:
    match error:
        case errors.InvalidInputError(violations=violations) | ModelNotAllowedError(violations=violations):
            fields = [
                status_pb2.BadRequest.FieldViolation(field=violation.field, description=violation.description)
                for violation in violations
            ]
            return [status_pb2.BadRequest(field_violations=fields), *_error_info(error)]
        case errors.OverloadedError(retry_after_seconds=seconds):
            delay = Duration()
            delay.FromMilliseconds(max(1, round(seconds * 1000)))
            retry = status_pb2.RetryInfo(retry_delay=delay)
            return [retry, *([_quota_failure(error)] if isinstance(error, QuotaExceededError) else [])]
        case _:
            return []


def _error_info(error: Exception) -> list[Message]:
    if not isinstance(error, errors.UnservedLanguageError):
        return []
    metadata = {"detected_languages": ",".join(error.detected), "served_languages": ",".join(error.served)}
    return [status_pb2.ErrorInfo(reason="LANGUAGE_NOT_SERVED", domain="xuanzang", metadata=metadata)]


def _quota_failure(error: QuotaExceededError) -> Message:
    violation = status_pb2.QuotaFailure.Violation(subject="api key", description=str(error))
    return status_pb2.QuotaFailure(violations=[violation])


def _as_any(detail: Message) -> Any:
    # These messages equal google.rpc's byte for byte; under that name every gRPC tool can read them.
    return Any(type_url=f"type.googleapis.com/google.rpc.{detail.DESCRIPTOR.name}", value=detail.SerializeToString())


def _number(code: grpc.StatusCode) -> int:
    number: int = code.value[0]
    return number
