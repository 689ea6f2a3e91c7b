"""Pieces in one block of memory, compared with a list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.bundles.vocabulary import Vocabulary


@given(st.lists(st.text()))
def test_a_vocabulary_has_the_pieces_of_its_list_in_their_order(pieces: list[str]) -> None:
    vocabulary = Vocabulary(pieces)
    assert len(vocabulary) == len(pieces)
    assert list(vocabulary) == vocabulary[:] == pieces
    assert [vocabulary[index] for index in range(len(pieces))] == pieces
    assert vocabulary[1::2] == pieces[1::2]


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_outside_a_vocabulary_is_refused(index: int) -> None:
    with pytest.raises(IndexError, match="among 2"):
        Vocabulary(("a", "b"))[index]
