"""Arrays of a batch grow and shrink, and numpy takes their memory once."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.engine.arrays import Order

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
