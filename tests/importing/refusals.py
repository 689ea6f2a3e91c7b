"""Damage to model directories, and what the import says of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xuanzang.model.importing.directory import DirectoryError
from xuanzang.model.importing.importer import import_model


def edit(path: Path, **changes: object) -> None:
    """Change fields of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


def refused(directory: Path) -> str:
    """Return why a directory is not imported; everything is as it was."""
    before = sorted(directory.parent.rglob("*"))
    with pytest.raises(DirectoryError) as caught:
        import_model(directory, directory.parent / "new" / "checkpoint")
    assert sorted(directory.parent.rglob("*")) == before
    reason, _, faults = str(caught.value).partition(" cannot be imported: ")
    assert reason == str(directory)
    return faults
