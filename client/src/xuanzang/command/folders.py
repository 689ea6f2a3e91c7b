"""Replacement of folders as a whole, and the mode of files in them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_MARKER = ".made-by-xuanzang"
_NEW = "new"
_OLD = "old"


@contextmanager
def replacing(folder: Path, *, marker: str) -> Iterator[Path]:
    """Yield an empty folder that takes the place of `folder` if the block raises nothing, and otherwise vanishes.

    A link is kept: the folder that it points to is replaced. Until then, everything is in `.NAME.replacing` beside it.

    Args:
        marker: Name of a file that every folder of this kind has. Only such a folder, or an empty one, is replaced.

    Raises:
        FileExistsError: Something else is there, or no replacement made what is at `.NAME.replacing`.
    """
    recover(folder)
    if _holds_other_things(folder, marker):
        raise FileExistsError(f"{folder} exists and has no {marker}: it is not replaced; choose another folder")
    work = _work(folder)
    if work.is_symlink() or _holds_other_things(work, _MARKER):
        raise FileExistsError(f"{work} was not made by xuanzang, which would work in a folder of this name: move it")
    work.mkdir(parents=True, exist_ok=True)
    (work / _MARKER).touch()
    (work / _NEW).mkdir()
    try:
        yield work / _NEW
    except BaseException:
        _clear(work)
        raise
    place = _place(folder)
    if place.exists():
        place.rename(work / _OLD)
    (work / _NEW).rename(place)
    _clear(work)


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
    if (old := settled(folder)) != folder:
        old.rename(_place(folder))
    _clear(_work(folder))


def settled(folder: Path) -> Path:
    """Return where to read `folder`, which may be between the two renames of a replacement; changes nothing."""
    work = _work(folder)
    is_between = (work / _MARKER).is_file() and (work / _OLD).exists() and not folder.exists()
    return work / _OLD if is_between else folder


def _clear(work: Path) -> None:
    """Remove what replacements left in a folder that they made, and the folder unless it holds other things."""
    if not (work / _MARKER).is_file():
        return
    for name in (_NEW, _OLD):
        shutil.rmtree(work / name, ignore_errors=True)
    if [path.name for path in work.iterdir()] == [_MARKER]:
        (work / _MARKER).unlink()
        work.rmdir()


def _holds_other_things(folder: Path, marker: str) -> bool:
    if not folder.is_dir():
        return folder.exists() or folder.is_symlink()
    return not (folder / marker).is_file() and any(folder.iterdir())


def _place(folder: Path) -> Path:
    """Return the path to rename: "." and ".." have no name, and a link stays where it is."""
    return folder.resolve() if folder.name in ("", "..") or folder.is_symlink() else folder


def _work(folder: Path) -> Path:
    place = _place(folder)
    return place.with_name(f".{place.name}.replacing")
