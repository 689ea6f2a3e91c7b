"""Weights as the kernels pack them, in a file that all servers of a user on a machine map.

Packed weights take as much memory as those of the bundle. The kernels compare the file with the bytes that they
would write there, so the file may be damaged or of any origin; but no other process may change it later.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xuanzang.kernels.graphs import SharedColumns
from xuanzang.server.whole_files import is_remote, open_private, remove_abandoned, temporary_beside

_LOGGER = logging.getLogger(__name__)

_PREFIX, _SUFFIX = "weights-", ".packed"
_MAX_UNUSED_SECONDS = 30 * 24 * 3600.0
"""Time without use until a server removes a file."""
_MAX_BYTES = 4 * 10**9
"""Limit of a folder; beyond it the files go that were not used for longest, but never the one written last."""


def packed_file(folder: Path, *facts: str) -> Path:
    """Return the path for the weights of graphs; some facts identify the packing."""
    digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()
    return folder / f"{_PREFIX}{digest}{_SUFFIX}"


@contextmanager
def shared_weights(path: Path, library: Path) -> Iterator[SharedColumns]:
    """Let graphs that this thread opens with the kernels of a library have their packed weights in a file.

    Gives the weights, which are in the memory of the process where no file can be written. The file is written if it
    is not there. An untrusted file is replaced, and one with other content removed.
    """
    try:
        descriptor, temporary = _opened(path)
    except OSError as error:
        _LOGGER.info("packed weights not kept", extra={"file": str(path), "reason": error.strerror})
        with SharedColumns(library) as columns:
            yield columns
        return
    try:
        with SharedColumns(library, descriptor) as columns:
            yield columns
        _keep(path, descriptor, temporary, has_all=columns.has_all)
    finally:
        os.close(descriptor)
        if temporary:
            temporary.unlink(missing_ok=True)


@contextmanager
def known_weights(path: Path, library: Path) -> Iterator[None]:
    """Let graphs that this thread opens read weights where `shared_weights` has them, whatever their order is.

    The file is not changed; without one, or where it has others, they are in the memory of the process.
    """
    descriptor = open_private(path)
    if descriptor is None:
        yield
        return
    try:
        with SharedColumns(library, descriptor):
            yield
    finally:
        os.close(descriptor)


def _opened(path: Path) -> tuple[int, Path | None]:
    """Open a file to read, if only the user and root may change it, or else a new one, with its name.

    OSError: none can be written, or other machines may remove it.
    """
    if is_remote(path.parent):
        raise OSError(errno.EREMOTE, "other machines may remove it")
    if (descriptor := open_private(path)) is not None:
        return descriptor, None
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(path.parent, f"{_PREFIX}*{_SUFFIX}")
    return temporary_beside(path)


def _keep(path: Path, descriptor: int, temporary: Path | None, *, has_all: bool) -> None:
    """Record that a file is used; give a new one its name, or remove one that graphs have found wrong."""
    try:
        if not has_all:
            _LOGGER.info("packed weights not shared", extra={"file": str(path)})
            if not temporary:
                path.unlink(missing_ok=True)
        elif not temporary:
            os.utime(descriptor)
        # Graphs without such weights write nothing.
        elif os.fstat(descriptor).st_size:
            # A part that a crash keeps from the disk is found when it is compared.
            temporary.rename(path)
            _remove_unused(path)
    except OSError as error:
        _LOGGER.info("packed weights not kept", extra={"file": str(path), "reason": error.strerror})


def _remove_unused(written: Path) -> None:
    """Remove files that were not used for long, or exceed the limit of the folder; a process that maps one keeps it."""
    files: list[tuple[float, int, Path]] = []
    for path in written.parent.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(OSError):
            status = path.lstat()
            if path != written and stat.S_ISREG(status.st_mode):
                files.append((status.st_mtime, status.st_size, path))
    total = written.stat().st_size
    for used_at, size, path in sorted(files, reverse=True):
        total += size
        if total > _MAX_BYTES or time.time() - used_at > _MAX_UNUSED_SECONDS:
            with suppress(OSError):
                path.unlink()
