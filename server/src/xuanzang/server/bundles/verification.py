"""Check that a bundle's folder holds exactly the files that its manifest lists."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor
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
    """Comparison of a bundle's files with its manifest.

    The digest of the weights, which takes a second for a gigabyte, is computed in another thread.
    """

    def __init__(self, directory: Path, manifest: manifest_pb2.Manifest, executor: Executor) -> None:
        """Compare the names and sizes of all files, and the digests of all but the weights.

        Args:
            directory: Folder of the bundle.
            manifest: Manifest with the list of files.
            executor: Thread for the digest of the weights.

        Raises:
            BundleError: The folder cannot be listed.
        """
        self._directory = directory
        self.states: list[tuple[str, FileState]] = []
        """Names of the files and their states from before any of their bytes was read."""
        # Others are faults of the manifest: opening them could lead out of the folder, or take hours.
        listed = [file for file in manifest.files if is_plain_name(file.name)]
        read = [file for file in listed[:MAX_FILES] if file.size_bytes <= max_bytes(manifest, file.name)]
        self.faults = [
            *_unlisted(directory, {MANIFEST, *(file.name for file in listed)}),
            *(fault for file in read if (fault := self._size_fault(file))),
        ]
        """One sentence per fault, without those of the weights' digest."""
        # A file of another size is reported without reading gigabytes.
        states = dict(self.states)
        sized = [file for file in read if file.name in states]
        self._weights = [
            executor.submit(self._digest_fault, file, states[file.name])
            for file in sized
            if file.name == manifest.weights
        ]
        others = [self._digest_fault(file, states[file.name]) for file in sized if file.name != manifest.weights]
        self.faults += filter(None, others)

    def weights_faults(self) -> list[str]:
        """Wait for the digest of the weights.

        Returns:
            What is wrong with it; empty if it is the one that is listed.
        """
        return [fault for digest in self._weights if (fault := digest.result())]

    def _size_fault(self, listed: manifest_pb2.File) -> str:
        try:
            with open_regular(self._directory, listed.name) as file:
                state = state_of(file)
        except FileError as error:
            return f"{listed.name} {error}"
        if state.size != listed.size_bytes:
            return f"{listed.name} has {state.size} bytes; {MANIFEST} says {listed.size_bytes}"
        self.states.append((listed.name, state))
        return ""

    def _digest_fault(self, listed: manifest_pb2.File, state: FileState) -> str:
        try:
            with open_regular(self._directory, listed.name) as file:
                digest = digest_of(file)
        except FileError as error:
            return f"{listed.name} {error}"
        if digest.state != state:
            return f"{listed.name} was changed while the bundle was being loaded"
        if digest.sha256 != listed.sha256:
            return f"{listed.name} has SHA-256 {digest.sha256}; {MANIFEST} says {listed.sha256}"
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
