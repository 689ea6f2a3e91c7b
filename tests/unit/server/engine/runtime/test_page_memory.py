"""Memory of pages in the heap and in reserved address space, compared with a plain array."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.engine.runtime.page_memory import PageMemory

PAGES = {"heap": (2, 4, 3), "reserved": (1, 32, 1 << 12), "unaligned": (3, 32, 1501)}
FIRST, LAST = (0, 0, 0), (-1, -1, -1)


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
@given(sizes=st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=6))
def test_pages_keep_their_contents_when_others_come_and_go(
    page: tuple[int, ...], sizes: list[tuple[int, bool]]
) -> None:
    memory = PageMemory(page, dtype=np.float32)
    kept: list[float] = []
    for number, (count, trims) in enumerate(sizes, start=1):
        memory.hold(count)
        for element in (FIRST, LAST):
            assert (memory.array[(slice(len(kept)), *element)] == kept).all()
            memory.array[(slice(count), *element)] = number
        kept += [0.0] * (count - len(kept))
        kept[:count] = [float(number)] * count
        if trims:
            memory.trim(count)
            kept = kept[:count]
        assert memory.nbytes == len(kept) * 4 * np.prod(page)


def test_reserved_pages_take_memory_only_once_they_are_written() -> None:
    memory = PageMemory((1, 32, 1 << 13), dtype=np.float32)
    before = resident_bytes()
    memory.hold(64)
    assert resident_bytes() - before < 16 << 20
    memory.array[:64] = 1.0
    assert resident_bytes() - before > 60 << 20
    memory.trim(1)
    assert resident_bytes() - before < 16 << 20
    assert memory.array[0].min() == 1.0


def test_pages_that_grow_stay_where_they_are() -> None:
    memory = PageMemory((1, 32, 1 << 13), dtype=np.float32)
    memory.hold(2)
    address = memory.array.ctypes.data
    memory.hold(20)
    assert memory.array.ctypes.data == address


def test_without_address_space_the_heap_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    memory = PageMemory((1, 32, 1 << 13), dtype=np.float32)
    memory.hold(2)
    memory.array[:] = 1.0
    memory.hold(4)
    assert memory.array[:, 0, 0, 0].tolist() == [1.0, 1.0, 0.0, 0.0]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
