"""Memory of pages in the heap and in reserved address space, compared with a plain array."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from xuanzang.server.engine.arrays import Order
from xuanzang.server.engine.runtime.pages import PageMemory, PagePool, PageShape, PageTable

PAGES = {"heap": (2, 4, 3), "reserved": (1, 32, 1 << 12), "unaligned": (3, 32, 1501)}
FIRST, LAST = (0, 0, 0), (-1, -1, -1)


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
@given(sizes=st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=6))
def test_pages_keep_their_contents_as_others_come_and_go(page: tuple[int, ...], sizes: list[tuple[int, bool]]) -> None:
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


SHAPE = PageShape(num_heads=2, slots=4, d_head=3)
counts = st.integers(0, 7)


def written(pool: PagePool) -> dict[str, npt.NDArray[Any]]:
    return {name: tensor.numpy() for name, tensor in pool.tensors.items()}


def write(pool: PagePool, seed: int) -> dict[str, npt.NDArray[Any]]:
    """Fill all pages with numbers of their own, where the graphs write."""
    random = np.random.default_rng(seed)
    values = {name: random.normal(size=array.shape).astype(array.dtype) for name, array in written(pool).items()}
    for name, tensor in pool.tensors.items():
        tensor.update_inplace(values[name])
    return values


@given(sizes=st.lists(st.tuples(counts, st.lists(st.tuples(counts, counts), max_size=3)), min_size=1, max_size=8))
def test_what_is_kept_stays_however_many_pages_there_are(sizes: list[tuple[int, list[tuple[int, int]]]]) -> None:
    pool = PagePool(["key", "value"], SHAPE, dtype=np.float32)
    expected = written(pool)
    for seed, (count, wanted) in enumerate(sizes):
        moves = [move for move in wanted if max(move) < pool.count]
        kept = min(count, pool.count)
        pool.resize(count, moves)
        for name, array in written(pool).items():
            for page, target in moves:
                expected[name][target] = expected[name][page]
            assert array.shape == (count, *SHAPE)
            assert np.isfinite(array).all()
            assert (array[:kept] == expected[name][:kept]).all()
        expected = write(pool, seed) if count else written(pool)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_the_memory_of_returned_pages_is_kept_and_reused_with_the_type_of_the_graphs(dtype: type[np.generic]) -> None:
    pool = PagePool(["key"], SHAPE, dtype=dtype)
    pool.resize(8)
    held = pool.nbytes
    assert held == 8 * 2 * 4 * 3 * np.dtype(dtype).itemsize
    for count in (1, 0, 8, 4):
        pool.resize(count)
        assert pool.nbytes == held
    assert pool.tensors["key"].numpy().dtype == dtype


class Sentences(RuleBasedStateMachine):
    """Sentences that come, grow and go, beside what they wrote on their pages."""

    def __init__(self) -> None:
        super().__init__()
        self.pages = PageTable(max_free=3)
        self.written: list[dict[int, int]] = []
        """Of each sentence: what stands on its page, by place."""
        self.content: dict[int, int] = {}
        """What stands on each page."""
        self.marks = 0

    @rule(newcomers=st.integers(1, 3))
    def join(self, newcomers: int) -> None:
        rows = np.arange(len(self.written), len(self.written) + newcomers)
        self.pages.join(rows)
        self.written += [{} for _ in rows]

    @precondition(lambda self: self.written)
    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        row = data.draw(st.integers(0, len(self.written) - 1))
        self.pages.join(np.array([row]))
        self.written[row] = {}

    @precondition(lambda self: self.written)
    @rule(data=st.data())
    def grow(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.integers(0, len(self.written) - 1), min_size=1, max_size=4))
        rows = np.array([row for row in chosen for _ in range(2)])  # two hypotheses may ask for one page
        places = np.array([len(self.written[row]) for row in rows])
        self.pages.widen(int(places.max()) + 1)
        self.pages.provide(rows, places)
        for row, place in zip(rows.tolist(), places.tolist(), strict=True):
            self.marks += 1
            self.written[row][place] = self.content[int(self.pages.table[row, place])] = self.marks

    @rule(data=st.data())
    def select(self, data: st.DataObject) -> None:
        order = data.draw(st.permutations(range(len(self.written))))[: data.draw(st.integers(0, len(self.written)))]
        for page, target in self.pages.select(Order.of(np.array(order, dtype=np.int64))):
            self.content[target] = self.content[page]
        self.written = [self.written[row] for row in order]
        used = int((self.pages.table >= 0).sum())
        assert self.pages.count - used <= max(used, 3)

    @invariant()
    def every_page_holds_what_its_sentence_wrote(self) -> None:
        table = self.pages.table
        assert table.shape[1] % 2 == 0
        for row, written in enumerate(self.written):
            places = np.flatnonzero(table[row] >= 0).tolist()
            assert {place: self.content[int(table[row, place])] for place in places} == written

    @invariant()
    def every_page_is_found_where_it_stands(self) -> None:
        held = self.pages.table[self.pages.table >= 0]
        assert len(set(held.tolist())) == len(held)
        rows, places = self.pages.owners[held].T
        np.testing.assert_array_equal(self.pages.table[rows, places], held)


TestSentences = Sentences.TestCase
TestSentences.settings = settings(max_examples=60, stateful_step_count=20)
