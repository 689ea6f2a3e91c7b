"""Errors of access, for the caller to map to its own codes."""

from __future__ import annotations

from xuanzang.server.engine.errors import FieldViolation, OverloadedError
from xuanzang.server.metric_series import Counter


class UnauthenticatedError(Exception):
    """The caller has no valid API key; the message does not name the fault."""

    def __init__(self, message: str, counter: Counter) -> None:
        self._counter = counter
        super().__init__(message)

    def count(self) -> None:
        """Count the refusal of the RPC; once, however often its caller is looked for."""
        self._counter.inc()


class WrongRoleError(UnauthenticatedError):
    """The API key is right, but for another purpose."""


class ModelNotAllowedError(Exception):
    """The API key of the caller does not allow the model."""

    def __init__(self, violation: FieldViolation) -> None:
        self.violations = (violation,)
        super().__init__(f"{violation.field}: {violation.description}")


class NotAWriterError(Exception):
    """The caller may not store glossaries, nor read their entries."""


class QuotaExceededError(OverloadedError):
    """The quota of an API key is used up; the server may have time for others."""


class KeysFileError(OSError):
    """A keys file cannot be used; the message names the file and the fault, and holds nothing of a key."""
