"""Refusals and failures as HTTP statuses, before an API gives them its own form."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from types import MappingProxyType

from xuanzang.client import FieldViolation, StatusCode, TranslationError, UnservedLanguageError

_STATUSES: Mapping[StatusCode, HTTPStatus] = MappingProxyType(
    {
        StatusCode.INVALID_ARGUMENT: HTTPStatus.BAD_REQUEST,
        StatusCode.OUT_OF_RANGE: HTTPStatus.BAD_REQUEST,
        StatusCode.ALREADY_EXISTS: HTTPStatus.CONFLICT,
        StatusCode.FAILED_PRECONDITION: HTTPStatus.CONFLICT,
        StatusCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
        StatusCode.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
        StatusCode.PERMISSION_DENIED: HTTPStatus.FORBIDDEN,
        StatusCode.RESOURCE_EXHAUSTED: HTTPStatus.TOO_MANY_REQUESTS,
        StatusCode.UNIMPLEMENTED: HTTPStatus.NOT_IMPLEMENTED,
        StatusCode.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
        StatusCode.CANCELLED: HTTPStatus.SERVICE_UNAVAILABLE,
        StatusCode.DEADLINE_EXCEEDED: HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_CODES: Mapping[HTTPStatus, StatusCode] = MappingProxyType(
    {
        HTTPStatus.BAD_REQUEST: StatusCode.INVALID_ARGUMENT,
        HTTPStatus.UNAUTHORIZED: StatusCode.UNAUTHENTICATED,
        HTTPStatus.FORBIDDEN: StatusCode.PERMISSION_DENIED,
        HTTPStatus.NOT_FOUND: StatusCode.NOT_FOUND,
        HTTPStatus.CONFLICT: StatusCode.ALREADY_EXISTS,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE: StatusCode.RESOURCE_EXHAUSTED,
        HTTPStatus.TOO_MANY_REQUESTS: StatusCode.RESOURCE_EXHAUSTED,
        HTTPStatus.NOT_IMPLEMENTED: StatusCode.UNIMPLEMENTED,
        HTTPStatus.SERVICE_UNAVAILABLE: StatusCode.UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT: StatusCode.DEADLINE_EXCEEDED,
    }
)
_UNAVAILABLE_SECONDS = 1.0
SHOWN_FAULTS = 10
_SHOWN_CHARACTERS = 200
_NAME = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Fault of a request, or of its processing."""

    status: HTTPStatus
    """Status of the answer."""
    message: str
    """Cause, for people; it quotes no text."""
    violations: tuple[FieldViolation, ...] = ()
    """Faulty parameters."""
    violation_count: int = 0
    """Number of faulty parameters; `violations` has the first ten."""
    reason: str = ""
    """Cause as one word for the log: nothing that a caller chose; empty: the word of the status."""
    retry_after: float | None = None
    """Seconds until another try makes sense; None: never, or unknown."""
    detected_languages: tuple[str, ...] = ()
    """Languages of texts that are not served."""
    served_languages: tuple[str, ...] = ()
    """Languages that are served instead."""

    def __post_init__(self) -> None:
        """Keep the first of many violations, and the beginning of long names, which callers may have made up."""
        shown = tuple(
            FieldViolation(field=each.field[:_SHOWN_CHARACTERS], description=each.description)
            for each in self.violations[:SHOWN_FAULTS]
        )
        count = max(self.violation_count, len(self.violations)) if self.violations else 0
        object.__setattr__(self, "violation_count", count)
        object.__setattr__(self, "violations", shown)
        object.__setattr__(self, "reason", self.reason or self.status.name.lower())

    @property
    def code(self) -> StatusCode:
        """Canonical code of the status, for APIs that have these."""
        return _CODES.get(self.status, StatusCode.INTERNAL)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the answer."""
        return {} if self.retry_after is None else {"retry-after": str(max(1, math.ceil(self.retry_after)))}

    @property
    def status_without_404(self) -> HTTPStatus:
        """Status for programs that take 404 for a wrong address: there, an unknown language or model is a bad value."""
        return HTTPStatus.BAD_REQUEST if self.status is HTTPStatus.NOT_FOUND else self.status

    @property
    def description(self) -> str:
        """Faulty parameters with their faults or, if there are none, the message."""
        listed = [f"{each.field}: {each.description}" for each in self.violations]
        if self.violation_count > len(listed):
            listed.append(f"and {self.violation_count - len(listed)} more")
        return "; ".join(listed) or self.message

    def named(self, names: Mapping[str, str]) -> Fault:
        """Return the same fault with the parameters' names of an API, also where a description mentions another one.

        Args:
            names: The API's names, by those of the gRPC service.
        """
        violations = tuple(
            FieldViolation(
                field=_renamed(each.field, names),
                description=_NAME.sub(lambda found: names.get(found[0], found[0]), each.description),
            )
            for each in self.violations
        )
        return replace(self, violations=violations)


class RefusedError(Exception):
    """A request is refused, or cannot be answered."""

    def __init__(self, fault: Fault) -> None:
        """Refuse a request."""
        super().__init__(fault.description)
        self.fault = fault


def bad_request(field: str, description: str) -> RefusedError:
    """Return the refusal of one parameter.

    Args:
        description: Its fault, and the limit.
    """
    return invalid([FieldViolation(field=field, description=description)])


def invalid(violations: Iterable[FieldViolation]) -> RefusedError:
    """Return the refusal of several parameters."""
    fault = Fault(status=HTTPStatus.BAD_REQUEST, message="the request is not valid", violations=tuple(violations))
    return RefusedError(fault)


def not_found(message: str) -> RefusedError:
    """Return the refusal of a request for something that is not there."""
    return RefusedError(Fault(status=HTTPStatus.NOT_FOUND, message=message))


def not_offered(message: str) -> RefusedError:
    """Return the refusal of a call of an API that the gateway does not have.

    Args:
        message: Which one, and which there are.
    """
    return RefusedError(Fault(status=HTTPStatus.NOT_IMPLEMENTED, message=message))


def fault_of(error: RefusedError | TranslationError) -> Fault:
    """Return the fault of a refused request, or of a failed call of the gRPC service."""
    if isinstance(error, RefusedError):
        return error.fault
    status = _STATUSES.get(error.code, HTTPStatus.BAD_GATEWAY)
    retry_after = error.retry_after
    if status is HTTPStatus.TOO_MANY_REQUESTS and retry_after is None:
        status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        # The SDK's words name the addresses of servers, which callers need not know.
        message, retry_after = "the translation server does not answer", retry_after or _UNAVAILABLE_SECONDS
        return Fault(status=status, message=message, reason="server_unavailable", retry_after=retry_after)
    message = "the server failed" if status is HTTPStatus.BAD_GATEWAY else error.message
    reason = f"server_{error.code.name.lower()}"
    fault = Fault(status=status, message=message, violations=error.violations, reason=reason, retry_after=retry_after)
    if isinstance(error, UnservedLanguageError):
        return replace(fault, detected_languages=error.detected_languages, served_languages=error.served_languages)
    return fault


def _renamed(field: str, names: Mapping[str, str]) -> str:
    if field in names:
        return names[field]
    stem, bracket, rest = field.partition("[")
    return names.get(stem, stem) + bracket + rest
