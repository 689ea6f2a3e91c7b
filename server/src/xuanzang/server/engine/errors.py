"""Errors of the engine, for the caller to map to its own codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from typing_extensions import override

MAX_VIOLATIONS = 10
"""Faults that an error names at most: all of them may be more than the metadata of an answer may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldViolation:
    """One fault of an input."""

    field: str
    """Path to the faulty field, such as "contents[3]" or "options.beam_size"."""
    description: str
    """The fault and the limit."""


class EngineError(Exception):
    """Base of all errors that the engine answers instead of a translation."""


class InvalidInputError(EngineError):
    """The input is outside the limits; the error names the first faults that were found, and their number."""

    def __init__(self, violations: Iterable[FieldViolation], *, count: int | None = None) -> None:
        """Name faults; `count` is their number where some are left out already."""
        found = iter(violations)
        self.violations = tuple(islice(found, MAX_VIOLATIONS))
        self.count = len(self.violations) + sum(1 for _ in found) if count is None else count
        message = "; ".join(f"{violation.field}: {violation.description}" for violation in self.violations)
        if (omitted := self.count - len(self.violations)) > 0:
            message += f"; and {omitted} more, {self.count} faults in all"
        super().__init__(message)

    def with_violations(self, violations: Iterable[FieldViolation]) -> InvalidInputError:
        """Return the same error in other words."""
        return InvalidInputError(violations, count=self.count)


class UnservedLanguageError(InvalidInputError):
    """Texts are in languages that are not translated."""

    def __init__(
        self,
        violations: Iterable[FieldViolation],
        *,
        detected: Iterable[str],
        served: Iterable[str],
        count: int | None = None,
    ) -> None:
        super().__init__(violations, count=count)
        self.detected = tuple(detected)
        self.served = tuple(served)

    @override
    def with_violations(self, violations: Iterable[FieldViolation]) -> UnservedLanguageError:
        return UnservedLanguageError(violations, detected=self.detected, served=self.served, count=self.count)


class ModelNotFoundError(EngineError):
    """No served model has the name or serves the languages."""

    def __init__(self, message: str, *, model: str = "") -> None:
        super().__init__(message)
        self.model = model
        """Name that a request gave, if that is the reason."""


class ModelStateError(EngineError):
    """The state of a model, or of its folder, does not allow the request; the message says why."""


class NotJudgedError(ModelStateError):
    """A version was not judged for want of time, which says nothing about it."""


class ModelLoadError(EngineError):
    """A model that is loaded on demand cannot be loaded."""

    def __init__(self, message: str, *, retry_after_seconds: float) -> None:
        """Make an error with the time after which the load is tried again."""
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class GlossaryNotFoundError(EngineError):
    """The server holds no glossary of that name."""


class GlossaryExistsError(EngineError):
    """The server holds another glossary of that name."""


class GlossaryStateError(EngineError):
    """The folder of the glossaries is full, or cannot be written; the message says which."""


class DetectionUnavailableError(EngineError):
    """The libraries that detect languages are not installed, or a setting turns them off."""


class ExplanationUnavailableError(EngineError):
    """A setting turns explanations off."""


class OverloadedError(EngineError):
    """The queue is full."""

    def __init__(self, message: str, *, retry_after_seconds: float, reason: str = "queue") -> None:
        """Make an error with an estimated wait.

        `reason` is a word for logs: the scarce resource, such as "queue", "deadline", "places" or "quota".
        """
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        self.reason = reason


class ModelOverloadedError(OverloadedError):
    """A model with limits has reached them; other models may have room."""


class MemoryLimitError(EngineError):
    """A sentence may need more memory for keys and values than its model, or the server, may use."""


class DrainingError(EngineError):
    """The engine finishes accepted work and refuses new work."""


class DeadlineExceededError(EngineError):
    """The deadline passed before the translation was done."""

    def __init__(self, message: str, *, in_queue: bool) -> None:
        """Make an error; `in_queue`: whether no sentence of the request had been started."""
        super().__init__(message)
        self.in_queue = in_queue
