"""Check that a bundle's folder holds exactly the files that its manifest lists."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import FileError, FileState, digest_of, open_regular, state_of
from xuanzang.server.bundles.manifest import MANIFEST, MAX_FILES, is_plain_name, max_bytes

# Bundles have ten files at the most; a folder with a million must not fill the memory.
_MAX_ENTRIES = 1000
# Kubernetes keeps the files of a volume in folders of such names ("..data") and links to them.
_VOLUME_PREFIX = ".."


class VerifiedFiles:
    """Comparison of a bundle's files with its manifest."""

    def __init__(self, directory: Path, manifest: manifest_pb2.Manifest) -> None:
        """Compare the names, sizes and digests of all files.

        Args:
            directory: Folder of the bundle.
            manifest: Manifest with the list of files.

        Raises:
            BundleError: The folder cannot be listed.
        """
        self.states: list[tuple[str, FileState]] = []
        """Names of the files and their states when they had the listed digests."""
        # Others are faults of the manifest: opening them could lead out of the folder, or take hours.
        listed = [file for file in manifest.files if is_plain_name(file.name)]
        read = [file for file in listed[:MAX_FILES] if file.size_bytes <= max_bytes(manifest, file.name)]
        self.faults = [
            *_unlisted(directory, {MANIFEST, *(file.name for file in listed)}),
            *(fault for file in read if (fault := self._fault(directory, file))),
        ]
        """One sentence per fault."""

    def _fault(self, directory: Path, listed: manifest_pb2.File) -> str:
        name = listed.name
        try:
            with open_regular(directory, name) as file:
                size = state_of(file).size
                if size != listed.size_bytes:
                    # Reported without reading gigabytes.
                    return f"{name} has {size} bytes; {MANIFEST} says {listed.size_bytes}"
                digest = digest_of(file)
        except FileError as error:
            return f"{name} {error}"
        if digest.sha256 != listed.sha256:
            return f"{name} has SHA-256 {digest.sha256}; {MANIFEST} says {listed.sha256}"
        self.states.append((name, digest.state))
        return ""


def _unlisted(directory: Path, known: set[str]) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in islice(entries, _MAX_ENTRIES + 1)]
    except OSError as error:
        raise BundleError(directory, [f"the folder cannot be listed: {error.strerror}"]) from error
    if len(names) > _MAX_ENTRIES:
        yield f"the folder has more than {_MAX_ENTRIES} entries"
        return
    for name in sorted(set(names) - known):
        if not name.startswith(_VOLUME_PREFIX):
            yield f"{name} is not listed in {MANIFEST}"
