"""The folder of the models: which versions are in it, and which of them have changed and are whole."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from xuanzang.server.bundles.repository import find_bundles

_VERSION = re.compile(r"[1-9][0-9]{0,8}")
# Bundles have ten files at the most; verification refuses a folder with more than 1000 entries.
_MAX_ENTRIES = 1001

Fingerprint = tuple[tuple[str, int, int, int, int], ...]


class VersionName(NamedTuple):
    """Name and version of a model, as its folder has them."""

    name: str
    version: int
    """0 for the folder of a model that cannot be listed."""


def version_name(directory: Path) -> VersionName:
    """Return the name and version that a bundle's folder, as `find_bundles` finds it, stands for."""
    if _VERSION.fullmatch(directory.name):
        return VersionName(directory.parent.name, int(directory.name))
    return VersionName(directory.name, 0)


def versions_in(root: Path) -> dict[VersionName, Path]:
    """Find the bundles of a repository, or raise BundleError."""
    return {version_name(directory): directory for directory in find_bundles(root)}


class FolderWatch:
    """Finds versions that have changed since they were loaded and are completely written.

    A version is whole when two looks find the same files with the same sizes and times: copying a bundle changes
    something between two looks. A partial copy is refused by its digests, and found again once it
    changes.
    """

    def __init__(self, root: Path) -> None:
        """Take the content of the folder as known; raise BundleError if it cannot be read."""
        self._root = root
        self._seen = self._fingerprints()
        self._known = self._seen

    def look(self) -> Mapping[VersionName, Path]:
        """Return the folders of versions that have changed, and did not since the look before; each change once."""
        before, self._seen = self._seen, self._fingerprints()
        settled = {
            directory: files
            for directory, files in self._seen.items()
            if before.get(directory) == files and self._known.get(directory) != files
        }
        gone = self._known.keys() - self._seen.keys() - before.keys()
        self._known = {path: files for path, files in (self._known | settled).items() if path not in gone}
        return {version_name(directory): directory for directory in settled}

    def is_gone(self, version: VersionName) -> bool:
        """Return whether a version was in the folder neither at the last look nor at the one before, while others are.

        A folder without any bundle is probably not mounted.
        """
        known = {version_name(directory) for directory in (*self._known, *self._seen)}
        return bool(self._seen) and version not in known

    def _fingerprints(self) -> dict[Path, Fingerprint]:
        return {directory: _fingerprint(directory) for directory in find_bundles(self._root)}


def _fingerprint(directory: Path) -> Fingerprint:
    """Return facts of the files in a folder that differ once one of them was written or replaced."""
    try:
        with os.scandir(directory) as entries:
            return tuple(sorted(_facts(entry) for entry in islice(entries, _MAX_ENTRIES)))
    except OSError:
        return ()


def _facts(entry: os.DirEntry[str]) -> tuple[str, int, int, int, int]:
    try:
        state = entry.stat()
    except OSError:
        # A link that leads nowhere.
        state = entry.stat(follow_symlinks=False)
    return entry.name, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
