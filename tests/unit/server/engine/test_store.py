from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.engine.store import Store

SIZES = st.tuples(st.integers(0, 6), st.integers(1, 7), st.integers(0, 7))


@given(sizes=st.lists(SIZES, min_size=1, max_size=8))
def test_what_is_kept_stays_whatever_size_the_tensors_take(sizes: list[tuple[int, int, int]]) -> None:
    store = Store(["key", "value"], num_heads=2, d_head=3, dtype=np.float32)
    expected: dict[str, npt.NDArray[Any]] = {name: np.zeros((0, 2, 0, 3)) for name in ("key", "value")}
    random = np.random.default_rng(0)
    for count, columns, used in sizes:
        store.resize(count, columns, used=used)
        for name, tensor in store.tensors().items():
            assert tensor.shape == (count, 2, columns, 3)
            assert tensor.flags.c_contiguous
            assert np.isfinite(tensor).all()
            rows, kept = min(count, len(expected[name])), min(columns, used, expected[name].shape[2])
            assert (tensor[:rows, :, :kept] == expected[name][:rows, :, :kept]).all()
            tensor[:] = random.normal(size=tensor.shape)
            expected[name] = tensor.copy()


def test_memory_is_kept_when_sentences_leave_and_reused_when_others_come() -> None:
    store = Store(["key"], num_heads=2, d_head=4, dtype=np.float32)
    store.resize(8, 16, used=16)
    held = store.nbytes
    for count, columns in ((1, 16), (0, 16), (8, 16), (4, 32)):
        store.resize(count, columns, used=columns)
    assert store.nbytes <= held + store.tensors()["key"].nbytes * 1.5


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rows_are_filled_and_copied(dtype: type[np.generic]) -> None:
    store = Store(["key"], num_heads=1, d_head=2, dtype=dtype)
    store.resize(3, 4, used=4)
    fresh = np.arange(8, dtype=dtype).reshape(2, 1, 2, 2)
    store.fill(np.array([2, 0]), {"key": fresh})
    before = store.tensors()["key"].copy()
    store.copy_row(2, 1, used=2)
    tensor = store.tensors()["key"]
    assert tensor.dtype == dtype
    assert (tensor[1, :, :2] == fresh[0]).all()
    assert (tensor[1, :, 2:] == before[1, :, 2:]).all()
    assert (tensor[0, :, :2] == fresh[1]).all()
