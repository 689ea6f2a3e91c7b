"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_MODE = 0o644
_PREFIX, _SUFFIX = ".xuanzang-", ".tmp"
_LEFT_SECONDS = 60.0
"""Age from which on a file is no longer being written by anybody."""


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place and rename it, so that no reader and no crash sees a part of it.

    Args:
        path: The file; its folder must exist.
        content: What it holds then.

    Raises:
        OSError: It cannot be written; the file is as it was.
    """
    handle, temporary = tempfile.mkstemp(prefix=_PREFIX, suffix=_SUFFIX, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
        Path(temporary).chmod(_MODE)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove what writers that were killed have left behind, as far as it can be removed.

    Args:
        folder: Folder of files that `write_whole` writes.

    Raises:
        OSError: The folder cannot be read.
    """
    for path in folder.iterdir():
        if path.name.startswith(_PREFIX) and path.suffix == _SUFFIX:
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _LEFT_SECONDS:
                    path.unlink()
