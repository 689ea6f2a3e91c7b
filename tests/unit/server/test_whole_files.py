"""Files that are written as a whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from xuanzang.server.whole_files import file_system, is_remote, temporary_beside

_MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
35 21 0:46 / /home/with\\040space rw,nosuid shared:12 master:3 - nfs4 files:/home rw,vers=4.2
36 21 0:47 / /plain rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("device", "name"), [((8, 1), "ext4"), ((0, 46), "nfs4"), ((0, 47), "tmpfs"), ((0, 4), ""), ((8, 11), "")]
)
def test_a_file_system_is_named_by_the_device(device: tuple[int, int], name: str) -> None:
    assert file_system(os.makedev(*device), _MOUNTS) == name


def test_a_folder_that_is_not_there_is_where_it_would_be_made() -> None:
    assert not is_remote(Path("/proc/none/of/these"))


def test_nothing_is_left_where_files_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="no locks"):
        temporary_beside(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
