"""Errors of the package, all of them subclasses of TranslationError.

All have .code, .message, .retryable, .retry_after, .violations and .request_id. The gRPC error, where there was one, is
the `__cause__`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class StatusCode(enum.Enum):
    """Canonical status codes with their numbers on the wire."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldViolation:
    """A faulty field of a request."""

    field: str
    """Path to the field, such as "contents[3]" or "options.beam_size"; settings are named without "settings."."""
    description: str
    """Description of the fault and the limit."""


class TranslationError(Exception):
    """Base class of every error of this package."""

    def __init__(
        self,
        message: str,
        *,
        code: StatusCode = StatusCode.UNKNOWN,
        retry_after: float | None = None,
        violations: tuple[FieldViolation, ...] = (),
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.retry_after = retry_after
        """Delay in seconds that the server asks for before a retry; None: it gave none."""
        self.violations = violations
        """Faulty fields, if the server named them."""
        self.request_id = request_id
        """Id of the call in the server's logs and traces; None if nothing was sent."""

    def __str__(self) -> str:
        return self.message if self.request_id is None else f"{self.message} [request {self.request_id}]"

    @property
    def retryable(self) -> bool:
        """True if the same call may succeed later: the server gave a delay, or could not be reached."""
        return self.code is StatusCode.UNAVAILABLE or self.retry_after is not None


class InvalidRequestError(TranslationError):
    """The request itself is wrong: `violations` names the fields."""


class UnservedLanguageError(InvalidRequestError):
    """No model translates the language of a text: `violations` names the texts.

    Set `source_language` to translate them all the same, or `pass_through_unserved` to get them back unchanged.
    """

    detected_languages: tuple[str, ...] = ()
    """Languages of these texts, as far as known."""
    served_languages: tuple[str, ...] = ()
    """Languages that the request could be translated from."""


class ModelNotFoundError(TranslationError):
    """No such model, or none for the language pair."""


class GlossaryNotFoundError(TranslationError):
    """The server holds no such glossary."""


class AccessDeniedError(TranslationError):
    """A server or proxy wants credentials that this client lacks."""


class OverloadedError(TranslationError):
    """The server has too much work, or the message is too large for it; retryable only with `retry_after`."""


class ServerUnavailableError(TranslationError):
    """No server could be reached, or it is shutting down."""


class DeadlineExceededError(TranslationError):
    """No answer came within the timeout."""


class CallCancelledError(TranslationError):
    """The client was closed, or a server ended the call, before the answer came."""


class ServerFaultError(TranslationError):
    """The server failed, or does not speak this protocol."""
