"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_MODE = 0o644


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place and rename it, so that no reader and no crash sees a part of it.

    Args:
        path: The file; its folder must exist.
        content: What it holds then.

    Raises:
        OSError: It cannot be written; the file is as it was.
    """
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
        Path(temporary).chmod(_MODE)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)
