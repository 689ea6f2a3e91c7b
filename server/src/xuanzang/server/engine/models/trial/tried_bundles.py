"""The list of bundles that were loaded before without harm, kept in a file from one start to the next."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import onnxruntime
import sentencepiece

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import read_limited
from xuanzang.server.bundles.manifest import MANIFEST, MAX_MANIFEST_BYTES

_LOGGER = logging.getLogger(__name__)

# Lines of 65 bytes; the oldest go first.
_MAX_ENTRIES = 1000
_MAX_BYTES = 1 << 20


class TriedBundles:
    """Digests of bundles together with the versions of the libraries that loaded them.

    The digest of a manifest stands for the whole bundle: it lists the digests of all files, and the server compares
    these before it opens any.
    """

    def __init__(self, file: Path, *, configuration: str) -> None:
        """Read nothing yet.

        Args:
            file: The list; it need not exist, and its folder is made.
            configuration: Settings that decide how graphs are opened, such as provider and kernels.
        """
        self._file = file
        versions = onnxruntime.__version__, sentencepiece.__version__, version("xuanzang-server")
        self._context = " ".join([*versions, configuration])

    def entry(self, directory: Path) -> str:
        """Return what the list holds for a bundle; empty if its manifest cannot be read.

        Args:
            directory: Folder of the bundle.
        """
        try:
            manifest = read_limited(directory, MANIFEST, MAX_MANIFEST_BYTES)
        except BundleError:
            return ""
        return hashlib.sha256(self._context.encode() + b"\0" + manifest).hexdigest()

    def add(self, entries: Sequence[str]) -> None:
        """Add bundles; if the file cannot be written, they are tried again at the next start.

        Args:
            entries: Entries of bundles that can be loaded.
        """
        if not entries:
            return
        kept = list(dict.fromkeys([*self.entries(), *entries]))[-_MAX_ENTRIES:]
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            # Written beside it and renamed, so that servers that start at once do not see half a list.
            handle, name = tempfile.mkstemp(dir=self._file.parent, prefix=self._file.name)
            with os.fdopen(handle, "w") as file:
                file.write("\n".join([*kept, ""]))
            Path(name).replace(self._file)
        except OSError as error:
            _LOGGER.info("tried bundles not remembered", extra={"file": str(self._file), "reason": error.strerror})

    def entries(self) -> list[str]:
        """Return all entries, the oldest first."""
        try:
            with self._file.open("rb") as file:
                return file.read(_MAX_BYTES).decode("ascii", "replace").split()
        except OSError:
            return []
