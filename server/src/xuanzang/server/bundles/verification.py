"""Check that a bundle's folder holds exactly the files that its manifest lists."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.manifest import MANIFEST, is_plain_name


def file_faults(directory: Path, manifest: manifest_pb2.Manifest) -> Iterator[str]:
    """Find missing, altered and unlisted files.

    Args:
        directory: Folder of the bundle.
        manifest: Manifest with the list of files.

    Yields:
        One sentence per fault.
    """
    # Other names are faults of the manifest; opening them could lead out of the folder.
    listed = [file for file in manifest.files if is_plain_name(file.name)]
    known = {MANIFEST, *(file.name for file in listed)}
    for path in sorted(directory.iterdir()):
        if path.name not in known:
            yield f"{path.name} is not listed in {MANIFEST}"
    for file in listed:
        yield from _faults_of_file(directory / file.name, file)


def _faults_of_file(path: Path, listed: manifest_pb2.File) -> Iterator[str]:
    if not path.is_file():
        yield f"{path.name} is missing or not a regular file"
        return
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            # A wrong size is reported without reading gigabytes.
            digest = hashlib.file_digest(file, "sha256").hexdigest() if size == listed.size_bytes else ""
    except OSError as error:
        yield f"{path.name} cannot be read: {error.strerror}"
        return
    if size != listed.size_bytes:
        yield f"{path.name} has {size} bytes; {MANIFEST} says {listed.size_bytes}"
    elif digest != listed.sha256:
        yield f"{path.name} has SHA-256 {digest}; {MANIFEST} says {listed.sha256}"
