"""What holds for terms of every text and every glossary."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from hypothesis import assume, given
from hypothesis import strategies as st

from xuanzang.text.terminology.terms import FoundTerm, GlossaryEntry, TermIndex, Terms, normalized
from xuanzang.text.words import find_whole, is_boundary, joins

_LETTERS = "abAB1猫源代码表 #+.!？。(㈱①ｱé\u0301"
TEXTS = st.text(alphabet=_LETTERS, max_size=30)
SOURCES = st.lists(st.text(alphabet=_LETTERS, min_size=1, max_size=4).map(str.strip).filter(bool), min_size=1)


def find(text: str, sources: Sequence[str]) -> list[FoundTerm]:
    index = TermIndex(GlossaryEntry(source=source, targets=(source,)) for source in sources)
    return Terms(indices=(index,), fields=("glossary_entries",)).find(text)


@given(TEXTS, SOURCES)
def test_terms_are_apart_in_their_order_and_written_as_in_the_text(text: str, sources: list[str]) -> None:
    found = find(text, sources)
    assert all(text[term.start : term.end] == term.source for term in found)
    assert {normalized(term.source) for term in found} <= {normalized(source) for source in sources}
    borders = [border for term in found for border in (term.start, term.end)]
    assert borders == sorted(borders)


@given(TEXTS, SOURCES)
def test_a_term_that_is_left_out_overlaps_one_that_is_as_long(text: str, sources: list[str]) -> None:
    text, sources = normalized(text), [normalized(source) for source in sources]
    assume(all(source.strip() for source in sources))
    found = find(text, sources)
    for source in sources:
        place = find_whole(text, source)
        while place >= 0:
            end = place + len(source)
            assert any(term.start < end and place < term.end and len(term.source) >= len(source) for term in found)
            place = find_whole(text, source, place + 1)


@given(TEXTS, SOURCES)
def test_terms_are_whole_words(text: str, sources: list[str]) -> None:
    for term in find(text, sources):
        source, place = normalized(term.source), len(normalized(text[: term.start]))
        plain = normalized(text)
        assume(plain[place:].startswith(source))
        assert is_boundary(plain, place)
        assert is_boundary(plain, place + len(source))


@given(TEXTS, SOURCES)
def test_the_width_of_letters_changes_nothing(text: str, sources: list[str]) -> None:
    text = unicodedata.normalize("NFKC", text)
    wide = "".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in text)
    assume(len(normalized(wide)) == len(wide))
    assert [(term.start, term.end) for term in find(wide, sources)] == [
        (term.start, term.end) for term in find(text, sources)
    ]


@given(TEXTS, st.integers(0, 30))
def test_no_word_goes_on_over_a_boundary(text: str, position: int) -> None:
    assume(position <= len(text))
    around = text[max(0, position - 1) : position + 1]
    goes_on = len(around) == 2 and position > 0 and all(map(joins, around))
    assert not (goes_on and is_boundary(text, position))
