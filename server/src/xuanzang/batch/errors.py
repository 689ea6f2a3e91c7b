"""Errors that end a job; all of them say what to do.

BatchError
├── InputError           the input, or the request, does not fit
├── OtherJobError        the output belongs to another job
└── ChangedInputError    the input changed while it was translated
"""

from __future__ import annotations


class BatchError(Exception):
    """Base of all errors that end a job."""


class InputError(BatchError):
    """The input cannot be read in its format, or has no such column."""


class OtherJobError(BatchError):
    """The output exists and was written by another job, or another process is writing it."""


class ChangedInputError(BatchError):
    """The input has changed since the job began."""


class RowError(Exception):
    """One row has no text to translate; the others do not suffer."""
