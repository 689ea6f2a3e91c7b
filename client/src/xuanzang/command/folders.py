"""Replacement of folders as a whole, and the mode of files in them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(folder: Path, *, marker: str) -> Iterator[Path]:
    """Yield an empty folder that takes the place of `folder` if the block raises nothing, and otherwise vanishes.

    Args:
        marker: Name of a file that every folder of this kind has. Only such a folder, or an empty one, is replaced.

    Raises:
        FileExistsError: Something else is there.
    """
    # "." and ".." have no name to derive another from.
    folder = folder.resolve() if folder.name in ("", "..") else folder
    recover(folder)
    if _holds_other_things(folder, marker):
        raise FileExistsError(f"{folder} exists and has no {marker}: it is not replaced; choose another folder")
    scratch, old = folder.with_name(f".{folder.name}.partial"), _old(folder)
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

    safetensors renames a temporary file that only its owner may read, whatever the umask says.
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


def _holds_other_things(folder: Path, marker: str) -> bool:
    if not folder.is_dir():
        return folder.exists() or folder.is_symlink()
    return not (folder / marker).is_file() and any(folder.iterdir())


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")
