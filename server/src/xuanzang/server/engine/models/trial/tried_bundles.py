"""The list of bundles that were loaded and replayed before without harm, kept from one start to the next."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnxruntime
import sentencepiece

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.manifest import manifest_digest
from xuanzang.server.engine.hardware import processor
from xuanzang.server.whole_files import remove_abandoned, write_whole

_LOGGER = logging.getLogger(__name__)

# Lines of 65 bytes; the oldest go first.
_MAX_ENTRIES = 1000
_MAX_BYTES = 1 << 20


class TriedBundles:
    """Digests of bundles together with what computed their translations.

    The digest of a manifest stands for the whole bundle: it lists the digests of all files, and the server compares
    these at each start. With another processor, library or setting the same bundle is a new one. The list is as
    trustworthy as the server's own files: one that others than its user may write is not read.
    """

    def __init__(self, file: Path, *, configuration: str) -> None:
        """Read nothing yet.

        Args:
            file: The list; it need not exist, and its folder is made.
            configuration: Settings that decide how graphs are opened, such as provider and kernels.
        """
        self._file = file
        versions = onnxruntime.__version__, sentencepiece.__version__, np.__version__, version("xuanzang-server")
        self._context = " ".join([*versions, onnxruntime.get_build_info(), processor(), configuration])

    def entry(self, directory: Path) -> str:
        """Return what the list holds for a bundle; empty if its manifest cannot be read."""
        try:
            return self.entry_of(manifest_digest(directory))
        except BundleError:
            return ""

    def entry_of(self, manifest_sha256: str) -> str:
        """Return what the list holds for a bundle with such a manifest.

        Args:
            manifest_sha256: Lower-case hex SHA-256 of the file.
        """
        return hashlib.sha256(f"{self._context}\0{manifest_sha256}".encode()).hexdigest()

    def add(self, entries: Sequence[str]) -> None:
        """Add bundles; if the file cannot be written, they are tried again at the next start."""
        if not entries:
            return
        kept = list(dict.fromkeys([*self.entries(), *entries]))[-_MAX_ENTRIES:]
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            remove_abandoned(self._file.parent, self._file.name)
            write_whole(self._file, "\n".join([*kept, ""]).encode(), mode=0o600)
        except OSError as error:
            _LOGGER.info("tried bundles not remembered", extra={"file": str(self._file), "reason": error.strerror})

    def entries(self) -> list[str]:
        """Return all entries, the oldest first; none of a list that others may write."""
        try:
            with self._file.open("rb") as file:
                if _is_private(os.fstat(file.fileno())):
                    return file.read(_MAX_BYTES).decode("ascii", "replace").split()
        except OSError:
            return []
        _LOGGER.warning("tried bundles not read: others may write the list", extra={"file": str(self._file)})
        return []


def _is_private(status: os.stat_result) -> bool:
    return status.st_uid in {0, os.geteuid()} and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
