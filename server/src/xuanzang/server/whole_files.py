"""Files that are written as a whole or not at all: the only writer of the server and its commands."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MODE = 0o644
# Names that neither the search for models nor the verification of bundles takes notice of.
_PREFIX = ".."
_SUFFIX = ".tmp"
_ANY_RANDOM = "?" * 8
"""Stands for the random part that `tempfile` gives a name."""
# A pipe may have no writer at its other end.
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_MOUNTS = Path("/proc/self/mountinfo")
_REMOTE = {"nfs", "nfs4", "cifs", "smb3", "9p", "afs", "beegfs", "ceph", "glusterfs", "gpfs", "lustre"} | {
    f"fuse.{name}" for name in ("ceph-fuse", "glusterfs", "s3fs", "sshfs")
}
"""File systems of other machines, as the system names them."""


def write_whole(path: Path, content: bytes, *, mode: int = _MODE, keeps_owner: bool = True) -> None:
    """Write a file under another name and rename it, so that no reader and no crash sees a part of it.

    When this returns, the content is on the disk. A file that is replaced keeps its owner if the process may set it and
    `keeps_owner` is true. An OSError leaves it unchanged.
    """
    handle, temporary = temporary_beside(path)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(handle, mode)
            if keeps_owner:
                with suppress(FileNotFoundError, PermissionError):
                    old = path.stat()
                    os.fchown(handle, old.st_uid, old.st_gid)
            os.fsync(handle)
            temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes that ask for the same lock waiting; it needs no file, but a folder that opens."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def remove_abandoned(folder: Path, name: str) -> None:
    """Remove what killed processes have left of files of a name or pattern, such as "*.tsv"; errors are left alone."""
    with suppress(OSError):
        for temporary in list(folder.glob(f"{_PREFIX}{name}.{_ANY_RANDOM}{_SUFFIX}")):
            with suppress(OSError):
                descriptor = os.open(temporary, _READING)
                try:
                    # Whoever still writes it holds the lock.
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    temporary.unlink()
                finally:
                    os.close(descriptor)


def is_private(status: os.stat_result) -> bool:
    """Return whether only the user of this process and root may write a file, so that it is as trustworthy as both."""
    return status.st_uid in {0, os.geteuid()} and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def open_private(path: Path) -> int | None:
    """Open a file and return its descriptor; None if there is none, it is a link, or others may write it."""
    with suppress(OSError):
        descriptor = os.open(path, _READING)
        if is_private(os.fstat(descriptor)):
            return descriptor
        os.close(descriptor)
    return None


def is_remote(folder: Path) -> bool:
    """Return whether a folder, or where it would be made, is on a file system of other machines.

    A file mapped from there ends the process when another machine removes it. False where the system does not tell,
    as only Linux does.
    """
    try:
        path = folder.absolute()
        existing = next(each for each in (path, *path.parents) if each.exists())
        return file_system(existing.stat().st_dev, _MOUNTS.read_text(errors="surrogateescape")) in _REMOTE
    except OSError:
        return False


def file_system(device: int, mounts: str) -> str:
    """Return the name of the file system on a device, by the lines of `/proc/self/mountinfo`; empty if none has it."""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.splitlines():
        mount, _, kind = line.partition(" - ")
        if mount.split(maxsplit=3)[2] == number:
            return kind.split(maxsplit=1)[0]
    return ""


def temporary_beside(path: Path) -> tuple[int, Path]:
    """Create a file next to a path, locked as long as it is open; return its descriptor and its name.

    The caller renames or removes it; `remove_abandoned` does after a crash. Only its user may read or write it.
    """
    while True:
        handle, name = tempfile.mkstemp(prefix=f"{_PREFIX}{path.name}.", suffix=_SUFFIX, dir=path.parent)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            os.close(handle)
            Path(name).unlink()
            raise
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        # Another process took it for abandoned before it was locked.
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, or a crash could undo a rename."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems do not know this
            raise
    finally:
        os.close(descriptor)
