"""Why a bundle is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class BundleError(Exception):
    """A bundle, or a repository of bundles, must not be served; all reasons that were found are named."""

    def __init__(self, directory: Path, reasons: Sequence[str]) -> None:
        """Keep the reasons.

        Args:
            directory: Of the bundle or repository.
            reasons: At least one.
        """
        super().__init__(f"{directory}: " + "; ".join(reasons))
        self.directory = directory
        self.reasons = tuple(reasons)
