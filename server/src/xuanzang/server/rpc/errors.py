"""Statuses of errors: one table from error classes to status codes, and their google.rpc details."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
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
from xuanzang.server.observation.rpc_log import Reason
from xuanzang.serving.memory import end_without_memory, is_want_of_memory
from xuanzang.translation.v1 import status_pb2

_LOGGER = logging.getLogger(__name__)
_Code = grpc.StatusCode


class NotReadyError(Exception):
    """The models are still being loaded."""


class NotOfferedError(Exception):
    """A method of another API that this server does not have."""


class IdleRpcError(errors.EngineError):
    """The caller sent no message for too long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the caller sent no message for {seconds:g} seconds")


_STATUSES: Mapping[type[Exception], tuple[grpc.StatusCode, str]] = MappingProxyType(
    {
        errors.InvalidInputError: (_Code.INVALID_ARGUMENT, "fields"),
        errors.UnservedLanguageError: (_Code.INVALID_ARGUMENT, "fields"),
        errors.ModelNotFoundError: (_Code.NOT_FOUND, "model"),
        errors.ModelStateError: (_Code.FAILED_PRECONDITION, "model_state"),
        errors.NotJudgedError: (_Code.FAILED_PRECONDITION, "model_state"),
        errors.GlossaryNotFoundError: (_Code.NOT_FOUND, "glossary"),
        errors.GlossaryExistsError: (_Code.ALREADY_EXISTS, "glossary"),
        errors.GlossaryStateError: (_Code.FAILED_PRECONDITION, "glossary"),
        BundleError: (_Code.FAILED_PRECONDITION, "bundle"),
        errors.DetectionUnavailableError: (_Code.UNIMPLEMENTED, "not_offered"),
        errors.ExplanationUnavailableError: (_Code.UNIMPLEMENTED, "not_offered"),
        errors.MemoryLimitError: (_Code.RESOURCE_EXHAUSTED, "memory"),
        errors.ModelOverloadedError: (_Code.RESOURCE_EXHAUSTED, "limit"),
        errors.OverloadedError: (_Code.RESOURCE_EXHAUSTED, "queue"),
        QuotaExceededError: (_Code.RESOURCE_EXHAUSTED, "quota"),
        errors.DeadlineExceededError: (_Code.DEADLINE_EXCEEDED, "deadline"),
        errors.DrainingError: (_Code.UNAVAILABLE, "draining"),
        errors.ModelLoadError: (_Code.UNAVAILABLE, "model_load"),
        NotReadyError: (_Code.UNAVAILABLE, "loading"),
        NotOfferedError: (_Code.UNIMPLEMENTED, "not_offered"),
        IdleRpcError: (_Code.ABORTED, "idle"),
        UnauthenticatedError: (_Code.UNAUTHENTICATED, "key"),
        WrongRoleError: (_Code.PERMISSION_DENIED, "role"),
        ModelNotAllowedError: (_Code.PERMISSION_DENIED, "model_not_allowed"),
        NotAWriterError: (_Code.PERMISSION_DENIED, "not_a_writer"),
    }
)
"""Code of each class of errors, and the word for it in logs; overload and faulty fields have words of their own."""
# Made before memory is short.
_NO_MEMORY = status_pb2.Status(code=_Code.UNAVAILABLE.value[0], message="the server has no memory for the call now")
_MAX_FIELDS = 5
# A caller may send any text as a name; no text is logged.
_LOGGED_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}(/[A-Za-z0-9._-]{1,63})?")

_CODES_BY_NUMBER = MappingProxyType({code.value[0]: code for code in grpc.StatusCode})


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
    if isinstance(error, errors.InvalidInputError):
        return Reason("fields", tuple(each.field for each in error.violations[:_MAX_FIELDS]))
    if isinstance(error, errors.OverloadedError):
        return Reason(error.reason)
    if isinstance(error, errors.ModelNotFoundError) and _LOGGED_NAME.fullmatch(error.model):
        return Reason("model", model=error.model)
    return Reason(_STATUSES[type(error)][1] if type(error) in _STATUSES else "internal")


def status_of(error: Exception, *, request_id: str | None = None) -> status_pb2.Status:
    """Describe an error to the caller; errors outside the table are logged with their traceback.

    They are INTERNAL, but for want of memory, which another server, or this one later, may have.
    """
    if type(error) not in _STATUSES:
        end_without_memory()
        if is_want_of_memory(error):
            _LOGGER.error("no memory for a call", exc_info=error, extra={"request_id": request_id})
            return _NO_MEMORY
        _LOGGER.error("unexpected error", exc_info=error, extra={"request_id": request_id})
        message = "internal error; the server's log has the reason"
        return status_pb2.Status(code=_Code.INTERNAL.value[0], message=message)
    code, _ = _STATUSES[type(error)]
    return status_pb2.Status(code=code.value[0], message=str(error), details=map(_as_any, _details(error)))


async def end(
    context: grpc.aio.ServicerContext[object, object], status: status_pb2.Status, trailers: Iterable[tuple[str, str]]
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
        if detail.type_url.endswith(".RetryInfo"):
            retry = status_pb2.RetryInfo.FromString(detail.value)
            trailers.append(("grpc-retry-pushback-ms", str(retry.retry_delay.ToMilliseconds())))
    return tuple(trailers)


def _details(error: Exception) -> Iterator[Message]:
    if isinstance(error, errors.InvalidInputError | ModelNotAllowedError):
        fault = status_pb2.BadRequest.FieldViolation
        faults = [fault(field=each.field, description=each.description) for each in error.violations]
        yield status_pb2.BadRequest(field_violations=faults)
    if isinstance(error, errors.UnservedLanguageError):
        languages = {"detected_languages": ",".join(error.detected), "served_languages": ",".join(error.served)}
        yield status_pb2.ErrorInfo(reason="LANGUAGE_NOT_SERVED", domain="xuanzang", metadata=languages)
    if isinstance(error, errors.OverloadedError | errors.ModelLoadError):
        delay = Duration()
        delay.FromMilliseconds(max(1, round(error.retry_after_seconds * 1000)))
        yield status_pb2.RetryInfo(retry_delay=delay)
    if isinstance(error, QuotaExceededError):
        violation = status_pb2.QuotaFailure.Violation(subject="api key", description=str(error))
        yield status_pb2.QuotaFailure(violations=[violation])


def _as_any(detail: Message) -> Any:
    # These messages equal google.rpc's byte for byte; under that name every gRPC tool can read them.
    return Any(type_url=f"type.googleapis.com/google.rpc.{detail.DESCRIPTOR.name}", value=detail.SerializeToString())
