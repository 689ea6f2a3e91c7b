"""Pages of mapped files that a process gives back."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import pytest

from xuanzang.server.engine.runtime.mapped_pages import mappings, release_pages

PAGES = 64

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is mapped")


def resident_kilobytes(path: Path) -> int:
    _, _, mapping = Path("/proc/self/smaps").read_text(encoding="utf-8").partition(str(path))
    return int(mapping.partition("Rss:")[2].split()[0])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "weights.bin"
    path.write_bytes(bytes(range(256)) * (PAGES * mmap.PAGESIZE // 256))
    return path


def mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def test_pages_of_a_mapped_file_leave_the_process_and_come_back(file: Path) -> None:
    with mapped(file) as content:
        before = bytes(content)
        assert resident_kilobytes(file) == len(before) // 1024
        assert release_pages(file) == len(before)
        assert resident_kilobytes(file) == 0
        assert bytes(content) == before


def test_only_mappings_that_have_come_since_give_their_pages_back(file: Path) -> None:
    with mapped(file) as earlier:
        assert len(bytes(earlier)) == PAGES * mmap.PAGESIZE
        others = mappings(file)
        assert release_pages(file, but=others) == 0
        assert resident_kilobytes(file) == len(earlier) // 1024


def test_a_mapping_that_was_written_to_keeps_its_pages(file: Path) -> None:
    with mapped(file) as content:
        content[0] = 77
        assert release_pages(file) == 0
        assert content[0] == 77


def test_a_file_that_is_not_mapped_has_nothing_to_return(file: Path) -> None:
    assert release_pages(file) == 0
