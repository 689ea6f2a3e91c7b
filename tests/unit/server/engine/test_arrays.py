"""Arrays of a batch grow and shrink."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.engine.arrays import Order


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
