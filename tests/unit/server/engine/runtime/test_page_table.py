"""Pages belong to one sentence each, follow it when it moves, and are free again when it leaves."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from xuanzang.server.engine.arrays import Order
from xuanzang.server.engine.runtime.page_table import PageTable


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
