"""The hidden work folder of a pull, the only place where a pull deletes anything."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from xuanzang.command.files import PathName
from xuanzang.server.published import HubError

_FOLDER = ".pulling"
_MARKER = ".made-by-xuanzang-pull"


class UnfinishedPull:
    """Folder `.pulling/NAME` of a repository, which servers do not read.

    A pull marks the folder when it makes it. A folder without the mark, or behind a link, is not touched.

    Args:
        repository: Folder of bundles; it must exist.
        name: Name of the bundle that is pulled.
    """

    def __init__(self, repository: Path, name: PathName) -> None:
        self._repository = repository
        self._name = name
        self.folder = repository / _FOLDER / name

    @contextlib.contextmanager
    def claimed(self, report: Callable[[str], None]) -> Iterator[None]:
        """Hold the lock of the folder, which the commands that the pull starts inherit.

        Raises:
            HubError: No pull made the folder.
            OSError: The folder cannot be made or locked.
        """
        _require_folder(self.folder.parent)
        self.folder.parent.mkdir(exist_ok=True)
        # No name begins with a dot.
        lock = os.open(self.folder.parent / f".{self._name}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            os.set_inheritable(lock, True)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report(f"another process is pulling {self._name} into {self._repository}: waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            self._require_own()
            yield
        finally:
            os.close(lock)

    def cleared(self, part: str) -> Path:
        """Return a path inside the folder, after deleting its content.

        Args:
            part: Relative path, of names that the pull chooses.
        """
        path = self.kept(part)
        _delete(path)
        return path

    def kept(self, part: str) -> Path:
        """Return a path inside the folder with the content that an earlier pull left there; see `cleared`."""
        self._require_own()
        self.folder.mkdir(exist_ok=True)
        (self.folder / _MARKER).touch()
        path = self.folder / part
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def emptied(self, part: str) -> Path:
        """Return an empty folder inside the folder; see `cleared`."""
        path = self.cleared(part)
        path.mkdir()
        return path

    def remove(self) -> None:
        """Delete the folder, if there is one."""
        self._require_own()
        _delete(self.folder)

    def _require_own(self) -> None:
        _require_folder(self.folder.parent)
        _require_folder(self.folder)
        # A pull that was killed before it marked its folder leaves an empty one.
        if self.folder.exists() and not (self.folder / _MARKER).is_file() and any(self.folder.iterdir()):
            raise HubError(f"{self.folder} was not made by xuanzang pull: move it elsewhere")


def _require_folder(path: Path) -> None:
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise HubError(f"{path} is no folder or is a link: xuanzang pull works in folders of its own only")


def _delete(path: Path) -> None:
    """Delete a folder of a pull, or a link in its place; what a link leads to is not touched."""
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)
