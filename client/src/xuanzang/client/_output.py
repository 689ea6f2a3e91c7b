"""Output files that keep their content until the new one is whole."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def replaced_file(path: Path, *, report: Callable[[str], None], mode: int | None = None) -> Iterator[TextIO]:
    """Write a temporary file that takes the given one's place once it is whole.

    A symbolic link is kept: the file that it points to is replaced. A special file, such as a named pipe or
    /dev/null, is written directly. If the block raises, the file is unchanged, and the partial one, unless it is
    empty, remains and is reported.

    Args:
        path: File to write; it need not exist.
        report: Callback for a message about a partial file.
        mode: Permissions of the file; None: the replaced file's, or a new file's default.

    Raises:
        OSError: The file cannot be written.
    """
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="\n") as output:
            yield output
        return
    target = Path(os.path.realpath(path))
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f"{target.name[:200]}.", suffix=".partial")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    partial = Path(name)
    try:
        with _named(target), os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as output:
            yield output
            output.flush()
            os.fsync(descriptor)
        partial.chmod(_mode(target) if mode is None else mode)
        partial.replace(target)
    except BaseException:
        _keep(partial, target, report)
        raise


@contextmanager
def _named(target: Path) -> Iterator[None]:
    """Add the name of the file to errors of writing, which have none."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error


def _keep(partial: Path, target: Path, report: Callable[[str], None]) -> None:
    if partial.stat().st_size == 0:
        partial.unlink()
        return
    kept = f"; {target} is as it was" if target.exists() else ""
    report(f"incomplete results are in {partial}{kept}")


def _mode(target: Path) -> int:
    """Return the permissions of the file, or a new file's default."""
    if target.exists():
        return target.stat().st_mode & 0o7777
    # The mask can only be read by setting it.
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
