"""Errors of access, for the caller to map to its own codes."""

from __future__ import annotations

from xuanzang.server.engine.errors import FieldViolation


class UnauthenticatedError(Exception):
    """The caller has no valid API key; the message does not say what is wrong with it."""


class ModelNotAllowedError(Exception):
    """The API key of the caller does not allow the model."""

    def __init__(self, violation: FieldViolation) -> None:
        """Make an error about one field.

        Args:
            violation: The field that means the model, and the models that are allowed.
        """
        self.violations = (violation,)
        super().__init__(f"{violation.field}: {violation.description}")


class KeysFileError(OSError):
    """A keys file cannot be used; the message names the file and the fault, and holds nothing of a key."""
