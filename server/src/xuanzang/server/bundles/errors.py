"""The error of a refused bundle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class BundleError(Exception):
    """A bundle, or a repository of bundles, must not be served; the message names all reasons."""

    def __init__(self, directory: Path, reasons: Sequence[str]) -> None:
        """Join the reasons to a message.

        Args:
            directory: Folder of the bundle or repository.
            reasons: One sentence per fault, at least one.
        """
        super().__init__(f"{directory}: " + "; ".join(reasons))
        self.directory = directory
        self.reasons = tuple(reasons)
