"""A copy of a bundle that a test damages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

Manifest = dict[str, Any]


class Damaged:
    """A copy of a bundle that is about to be damaged. Files that are not touched are links to those of the original."""

    def __init__(self, original: Path, directory: Path, random: Random) -> None:
        """Copy a bundle.

        Args:
            original: Folder of a sound bundle.
            directory: Folder of the copy, to be made.
            random: Source of all choices.
        """
        self.directory = directory
        self.random = random
        directory.mkdir(parents=True)
        for path in original.iterdir():
            (directory / path.name).hardlink_to(path)
        self.manifest: Manifest = json.loads((original / "manifest.json").read_text(encoding="utf-8"))
        self.manifest["version"] = int(directory.name)
        self.write_manifest()

    def write(self, name: str, content: bytes) -> None:
        """Replace a file; the original keeps its own."""
        (self.directory / name).unlink(missing_ok=True)
        (self.directory / name).write_bytes(content)

    def read(self, name: str) -> bytes:
        return (self.directory / name).read_bytes()

    def write_manifest(self) -> None:
        self.write("manifest.json", json.dumps(self.manifest).encode())

    def certify(self, name: str, content: bytes) -> None:
        """Replace a file and list it with its digest, as if it had been exported so."""
        if (self.directory / name).exists() and content == self.read(name):
            raise AssertionError(f"{name} is as it was")
        self.write(name, content)
        for entry in self.manifest["files"]:
            if entry["name"] == name:
                entry |= {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": str(len(content))}
        self.write_manifest()

    @property
    def listed(self) -> list[str]:
        return [entry["name"] for entry in self.manifest["files"]]

    def any_file(self) -> str:
        return self.random.choice(self.listed)


Damage = Callable[[Damaged], str]
"""Damages a bundle and returns a regular expression of what the reasons must name."""
