"""The error of a refused bundle, and the words for faults of documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ConfigDict, ValidationError

PARSED = ConfigDict(frozen=True, strict=True, defer_build=True)
"""What files of a bundle are parsed by: a number is no text, and other fields are passed over."""
_MAX_FAULTS = 3
# Reasons go to the log; a hostile file must not fill it, and a person reads no more than these.
MAX_REASONS = 20
MAX_REASON_CHARACTERS = 500


class BundleError(Exception):
    """A bundle, or a repository of bundles, must not be served; the message names the reasons."""

    def __init__(self, directory: Path, reasons: Sequence[str]) -> None:
        """Join the reasons, one sentence per fault; long ones are cut, and those beyond 20 only counted."""
        kept = [_printable(reason) for reason in reasons[:MAX_REASONS]]
        if len(reasons) > MAX_REASONS:
            kept.append(f"and {len(reasons) - MAX_REASONS} more")
        super().__init__(f"{_printable(str(directory))}: " + "; ".join(kept))
        self.directory = directory
        self.reasons = tuple(kept)


def _printable(reason: str) -> str:
    """Shorten a reason; names of files and messages of libraries may have control characters."""
    if len(reason) > MAX_REASON_CHARACTERS:
        reason = reason[:MAX_REASON_CHARACTERS] + " …"
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in reason)


def validation_faults(error: ValidationError) -> str:
    """Return the first faults of a document and the number of the others, without what stands in it."""
    faults = error.errors(include_input=False, include_context=False, include_url=False)
    lines = [f"{'.'.join(map(str, fault['loc'])) or 'content'}: {fault['msg']}" for fault in faults]
    more = f"; {len(lines) - _MAX_FAULTS} more" if len(lines) > _MAX_FAULTS else ""
    return "; ".join(lines[:_MAX_FAULTS]) + more
