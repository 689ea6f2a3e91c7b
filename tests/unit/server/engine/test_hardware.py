from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.engine.arrays import Order
from xuanzang.server.engine.hardware import flush_denormals, give_way, memory_limit, processor, usable_cores

AFFINITY = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


QUOTA, PERIOD = "cpu/cpu.cfs_quota_us", {"cpu/cpu.cfs_period_us": "100000\n"}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "max 100000\n"}, AFFINITY),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "100000 100000\n"}, 1),
        ({"cpu.max": "150000 100000\n"}, min(AFFINITY, 2)),
        ({"cpu.max": "9900000 100000\n"}, min(AFFINITY, 99)),
        ({"cpu.max": "nonsense"}, AFFINITY),
        ({}, AFFINITY),
        # Control groups of version 1.
        ({QUOTA: "-1\n"} | PERIOD, AFFINITY),
        ({QUOTA: "50000\n"} | PERIOD, 1),
        ({QUOTA: "150000\n"} | PERIOD, min(AFFINITY, 2)),
        ({QUOTA: "nonsense"} | PERIOD, AFFINITY),
    ],
)
def test_a_quota_lowers_the_cores_and_never_below_one(tmp_path: Path, files: dict[str, str], cores: int) -> None:
    write(tmp_path, files)
    assert usable_cores(tmp_path) == cores


def test_a_processor_is_its_model_and_flags_and_not_its_clock(tmp_path: Path) -> None:
    facts = tmp_path / "cpuinfo"
    described = set()
    for clock, flags in (("2500", "avx2"), ("3100", "avx2"), ("3100", "avx2 avx512f")):
        facts.write_text(f"processor: 0\nmodel name: EPYC\ncpu MHz: {clock}\nflags: {flags}\n\nprocessor: 1\n")
        described.add(processor(facts))
    assert described == {"model name: EPYC\nflags: avx2", "model name: EPYC\nflags: avx2 avx512f"}
    assert platform.machine() in processor(tmp_path / "missing")


def test_without_affinity_as_on_macos_all_cores_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert usable_cores(tmp_path / "missing") == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores(tmp_path / "missing") == 1


MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"memory.max": "max\n"}, MACHINE),
        ({"memory.max": "nonsense"}, MACHINE),
        ({"memory.max": "9223372036854771712\n"}, MACHINE),
        ({"memory.max": "1048576\n"}, 1_048_576),
        ({}, MACHINE),
        # Control groups of version 1.
        ({"memory/memory.limit_in_bytes": "1048576\n"}, 1_048_576),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, MACHINE),
    ],
)
def test_the_memory_is_that_of_the_container_or_the_machine(tmp_path: Path, files: dict[str, str], limit: int) -> None:
    write(tmp_path, files)
    assert memory_limit(tmp_path) == limit


def _smallest() -> float:
    """Return what the calling thread computes of a denormal number; of many, so that the vector units do."""
    return float((np.full(64, 1e-39, dtype=np.float32) * np.float32(1)).max())


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="denormals are flushed on Linux on x86-64 only"
)
def test_denormals_are_zero_in_the_calling_thread_and_those_it_starts_alone() -> None:
    found: dict[str, float] = {}

    def ask() -> None:
        found["before"] = _smallest()
        assert flush_denormals()
        found["after"] = _smallest()
        child = threading.Thread(target=lambda: found.update(child=_smallest()))
        child.start()
        child.join()

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert found["before"] > 0
    assert (found["after"], found["child"]) == (0, 0)
    assert _smallest() > 0


# In a thread: freeing 20 MB at once lets the C library keep as much, and then many small blocks are freed.
_FREE_IN_A_THREAD = """
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xuanzang.server.engine.hardware import return_free_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

def work():
    import numpy as np
    del (large := [np.ones(20_000_000, np.int8)])[0]
    blocks = [np.ones(100_000, np.int8) for _ in range(150)]
    blocks.clear()
    kept = resident()
    assert return_free_memory()
    print(kept - resident())

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked to return memory")
def test_the_end_of_the_heap_of_a_thread_is_returned() -> None:
    output = subprocess.run([sys.executable, "-c", _FREE_IN_A_THREAD], check=True, capture_output=True, text=True)
    assert float(output.stdout) > 12


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priorities of their own")
def test_a_thread_that_gives_way_has_a_lower_priority_than_the_others() -> None:
    def lowered() -> int:
        assert give_way()
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lowered).result() > os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


# Sizes as of arrays that follow the batch: some bytes to some hundred of them, of masks and of 64-bit integers.
_MEASURE = """
import ctypes
import numpy as np
from xuanzang.server.engine.arrays import take_small_blocks

class Heap(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks used".split()]
    _fields_ += [("rest", ctypes.c_size_t * 2)]

heap = ctypes.CDLL(None).mallinfo2
heap.restype = Heap

def make_arrays():
    for size in range(1, 1024):
        held = [np.empty(size, bool) for _ in range(9)]

take_small_blocks()
before = heap().used
make_arrays()
print(heap().used - before)
"""


@given(st.integers(0, 8).flatmap(lambda count: st.tuples(st.permutations(range(count)), st.integers(0, count))))
def test_an_order_keeps_rows_in_the_memory_of_the_array(drawn: tuple[list[int], int]) -> None:
    indices, left = drawn
    array = np.arange(len(indices) * 3).reshape(-1, 3)
    kept = np.array(indices[left:], dtype=np.int64)
    expected = array[kept].copy()
    found = Order.of(kept).apply(array)
    np.testing.assert_array_equal(found, expected)
    assert found.flags.c_contiguous
    assert found.base is not None
    assert found.ctypes.data == array.ctypes.data


@pytest.mark.skipif(sys.platform != "linux", reason="glibc tells what its heap holds")
def test_small_arrays_take_nothing_more_once_all_blocks_are_taken() -> None:
    grown = int(subprocess.run([sys.executable, "-c", _MEASURE], check=True, capture_output=True, text=True).stdout)
    # It is more than 3 MB if they are not.
    assert 0 <= grown <= 200_000
