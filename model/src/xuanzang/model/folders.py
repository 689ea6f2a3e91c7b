"""Replacement of folders as a whole, and the mode of files in them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of `folder` if the block raises nothing, else vanishes."""
    scratch, old = folder.with_name(f".{folder.name}.partial"), _old(folder)
    recover(folder)
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        yield scratch
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    if folder.exists():
        folder.rename(old)
    scratch.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def with_usual_mode(path: Path, write: Callable[[Path], object]) -> None:
    """Let a function write a file, and leave the file with the mode that files of this process have.

    safetensors renames a temporary file that nobody but its owner may read, whatever the umask says.
    """
    path.touch()
    mode = path.stat().st_mode
    write(path)
    path.chmod(mode)


def recover(folder: Path) -> None:
    """Undo a replacement that was cut off between its two renames; for the folder's writer."""
    old = _old(folder)
    if old.exists() and not folder.exists():
        old.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def settled(folder: Path) -> Path:
    """Return where to read `folder`, which may be between the two renames of a replacement; changes nothing."""
    old = _old(folder)
    return old if old.exists() and not folder.exists() else folder


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")
