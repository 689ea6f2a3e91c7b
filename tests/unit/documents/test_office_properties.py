"""Generated documents of each office format, made and read by their reference libraries."""

from __future__ import annotations

import pytest
from document_texts import translated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from office_documents import FORMATS, Characters, Paragraph, opens

_WORDS = st.text(st.sampled_from("abcdé字ß\u00a0\u3000 \t-\u2011.,&<>\"'1"), max_size=12)
_PARAGRAPHS = st.lists(st.lists(st.tuples(_WORDS, st.booleans(), st.booleans()), max_size=5), min_size=3, max_size=4)
_QUIET = settings(deadline=None, suppress_health_check=list(HealthCheck))


def upper(text: str) -> str:
    """Return a text of the same length with capital letters."""
    return "".join(character.upper() if len(character.upper()) == 1 else character for character in text)


def capital(paragraphs: list[Characters]) -> list[Characters]:
    """Return paragraphs in capital letters, but for values that are no texts."""
    return [
        [(upper(each) if len(each) == 1 else each, bold, italic) for each, bold, italic in paragraph]
        for paragraph in paragraphs
    ]


def check(suffix: str, paragraphs: list[Paragraph]) -> None:
    make, read_again = FORMATS[suffix]
    raw = make(paragraphs)
    assert translated(suffix, raw, str) == raw
    result = translated(suffix, raw, upper)
    assert opens(result)
    assert _plain(suffix, read_again(result)) == _plain(suffix, capital(read_again(raw)))


def _plain(suffix: str, paragraphs: list[Characters]) -> list[Characters]:
    """Return paragraphs as their format shows them: in some, white space between words is a space."""
    if suffix != ".epub":
        return paragraphs
    collapsed = []
    for paragraph in paragraphs:
        row: Characters = []
        for character, bold, italic in paragraph:
            if character not in " \t\n" or not row or row[-1][0] != " ":
                row.append((" " if character in " \t\n" else character, bold, italic))
        collapsed.append(row)
    return collapsed


@pytest.mark.parametrize("suffix", FORMATS)
@settings(_QUIET, max_examples=20)
@given(paragraphs=_PARAGRAPHS)
def test_only_words_change_in_generated_documents(suffix: str, paragraphs: list[Paragraph]) -> None:
    check(suffix, paragraphs)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", FORMATS)
@settings(_QUIET, max_examples=200)
@given(paragraphs=_PARAGRAPHS)
def test_only_words_change_in_200_generated_documents(suffix: str, paragraphs: list[Paragraph]) -> None:
    check(suffix, paragraphs)
