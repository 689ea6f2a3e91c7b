"""A keys file for the tests of what a key may do."""

from __future__ import annotations

from pathlib import Path

import pytest
from keyed_rpcs import KeysFile

from xuanzang.server.access.keys_file import change_keys


@pytest.fixture
def keys_file(tmp_path: Path) -> KeysFile:
    file = KeysFile(tmp_path / "keys.json")
    change_keys(file.path, lambda old: old)
    return file
