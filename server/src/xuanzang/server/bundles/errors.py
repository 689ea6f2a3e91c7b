"""The error of a refused bundle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

# Reasons go to the log; a hostile file must not fill it, and these are enough for a reader.
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
