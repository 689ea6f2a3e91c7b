"""Reading of a bundle's files: regular files of its volume only, within a limit of bytes, and documents in JSON."""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from xuanzang.server.bundles.errors import BundleError

# A FIFO would wait for a writer, and a name may become a link after it was resolved.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY
_MAX_FAULTS = 3
PARSED = ConfigDict(frozen=True, strict=True, defer_build=True)
"""Configuration of documents: a text is no number, and further fields are passed over."""

Document = TypeVar("Document", bound=BaseModel)
# Between two chunks a thread waits for the interpreter, which others keep for a millisecond.
_DIGEST_BYTES = 8 << 20


class FileState(NamedTuple):
    """Facts that differ after a file was written or replaced."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class FileError(Exception):
    """A file must not be read; the message says why, without the file's name."""


@contextmanager
def open_regular(directory: Path, name: str) -> Iterator[BufferedReader]:
    """Open a regular file of a bundle; FileError: it is missing, unreadable, not regular, or lies outside.

    Symbolic links are followed within the bundle's folder and within the repository, two folders above it: mounted
    volumes of Kubernetes consist of such links.
    """
    path = _resolved(directory, name)
    try:
        # Opening a device, even without reading from it, may have effects.
        _require_regular(path.lstat())
        with open(path, "rb", opener=lambda name, _: os.open(name, _FLAGS)) as file:
            _require_regular(os.fstat(file.fileno()))
            yield file
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror}") from error


def _resolved(directory: Path, name: str) -> Path:
    try:
        path = (directory / name).resolve(strict=True)
        volumes = directory.resolve(strict=True), directory.parent.parent.resolve(strict=True)
    except FileNotFoundError as error:
        raise FileError("is missing") from error
    except (OSError, RuntimeError) as error:
        # Loops of links are a RuntimeError before Python 3.13.
        reason = error.strerror if isinstance(error, OSError) else "a loop of symbolic links"
        raise FileError(f"cannot be read: {reason}") from error
    if not any(path.is_relative_to(volume) for volume in volumes):
        raise FileError(f"is a link to {str(path)!r}, outside the repository")
    return path


def _require_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise FileError("is not a regular file")


def read_limited(directory: Path, name: str, limit: int) -> bytes:
    """Read a file of a bundle; raise BundleError if that fails, or if it has more bytes than the limit."""
    try:
        with open_regular(directory, name) as file:
            # No file is larger than it says, but some are that grow meanwhile.
            content = file.read(min(state_of(file).size, limit) + 1)
    except FileError as error:
        raise BundleError(directory, [f"{name} {error}"]) from error
    if len(content) > limit:
        raise BundleError(directory, [f"{name} has more than {limit} bytes"])
    return content


def read_document(directory: Path, name: str, limit: int, kind: type[Document], *, what: str) -> Document:
    """Read a document in JSON; BundleError names its faults, or as `read_limited` does."""
    content = read_limited(directory, name, limit)
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise BundleError(directory, [f"{name} is not {what}: {validation_faults(error)}"]) from None


def validation_faults(error: ValidationError) -> str:
    """Return the first faults of a document and the number of the others, without its content."""
    faults = error.errors(include_input=False, include_context=False, include_url=False)
    lines = [f"{'.'.join(map(str, fault['loc'])) or 'content'}: {fault['msg']}" for fault in faults]
    more = f"; {len(lines) - _MAX_FAULTS} more" if len(lines) > _MAX_FAULTS else ""
    return "; ".join(lines[:_MAX_FAULTS]) + more


def state_of(file: BufferedReader) -> FileState:
    """Return the state of an open file."""
    status = os.fstat(file.fileno())
    return FileState(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def digest_of(file: BufferedReader) -> tuple[str, FileState]:
    """Return the lower-case hex SHA-256 of the bytes that an open file has now, and its state before they are read."""
    state = state_of(file)
    digest, left = hashlib.sha256(), state.size
    if not left:
        return digest.hexdigest(), state
    # Separate pages go back to the system; a piece of the heap would stay.
    with mmap.mmap(-1, min(left, _DIGEST_BYTES)) as pages, memoryview(pages) as chunk:
        while left > 0 and (count := file.readinto(chunk[:left])):
            digest.update(chunk[:count])
            left -= count
    return digest.hexdigest(), state


def changed_files(directory: Path, states: Sequence[tuple[str, FileState]]) -> Iterator[str]:
    """Find files that have changed."""
    for name, before in states:
        try:
            with open_regular(directory, name) as file:
                now = state_of(file)
        except FileError as error:
            yield f"{name} {error}"
        else:
            if now != before:
                yield f"{name} was changed while the bundle was being loaded"
