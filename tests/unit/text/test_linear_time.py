"""What is done with raw text takes time that is linear in its length, whatever it is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from html import escape
from itertools import pairwise

import pytest
from hostile_texts import superlinear

from xuanzang.text.comparison import has_untranslated_part, loses_name, loses_number
from xuanzang.text.markup.alignment import copies_of
from xuanzang.text.markup.parsing import MAX_MARKUP_CHARACTERS, parse
from xuanzang.text.markup.tokens import MarkupError
from xuanzang.text.offsets import before_nfkc, nfkc, punctuation_of
from xuanzang.text.sentences import (
    is_copied,
    seen_text,
    split_long_sentence,
    split_sentences,
    with_unbroken,
)
from xuanzang.text.spans.carrying import Carrier
from xuanzang.text.terminology.terms import GlossaryEntry, TermIndex, Terms
from xuanzang.text.types import ContentFormat, ProtectedPattern
from xuanzang.text.words import has_repetition

TERMS = Terms(
    indices=(TermIndex([GlossaryEntry(source=each, targets=("x",)) for each in ("a", "aa", "a.", "猫", "“a")]),),
    patterns=tuple(ProtectedPattern),
)


def _parsed(content: str, content_format: ContentFormat) -> None:
    with suppress(MarkupError):
        parse(content[:MAX_MARKUP_CHARACTERS], content_format)


def _cut(text: str) -> None:
    parts = split_sentences(text)
    ends = [0]
    for part in parts:
        is_copied(seen_text(part))
        ends.append(ends[-1] + len(part))
    assert "".join(with_unbroken(parts, list(pairwise(ends))[::2])) == text
    split_long_sentence(text, lambda part: -(-len(part) // 4), 100)


def _flagged(text: str) -> None:
    loses_number(text, "a")
    loses_name(text, "a")
    has_untranslated_part(text, "a 猫")
    has_repetition(text)


def _carried(text: str) -> None:
    text = f"猫 {text} é"
    Carrier(frozenset(), text, bool, knows=set("é猫").isdisjoint).parts_of_text(text)


def _respelled(text: str) -> None:
    punctuation_of("en").normalize(text)
    punctuation = punctuation_of("de")
    punctuation.before(text, [(0, len(punctuation.normalize(text)))])


PASSES: Mapping[str, Callable[[str], object]] = {
    "carried": _carried,
    "html": lambda text: _parsed(text, ContentFormat.HTML),
    "html paragraph": lambda text: _parsed(f"<p>a {text} b</p>", ContentFormat.HTML),
    "html verbatim": lambda text: _parsed(f"a<code>{text}", ContentFormat.HTML),
    "xml": lambda text: _parsed(text, ContentFormat.XML),
    "xml text": lambda text: _parsed(f"<r>{escape(text)}</r>", ContentFormat.XML),
    "xml sections": lambda text: _parsed(f"<r>{text.replace('<', '<![CDATA[<]]>')}</r>", ContentFormat.XML),
    "sentences": _cut,
    "normal form": lambda text: before_nfkc(text, [(0, len(nfkc(text)))]),
    "punctuation": _respelled,
    "terms": TERMS.find,
    "flags": _flagged,
    "copies": lambda text: list(copies_of(text, text, [(0, 1), (0, 2), (1, 3)] * 10)),
}


@pytest.mark.parametrize("name", PASSES)
def test_no_pass_over_a_text_takes_time_quadratic_in_its_length(name: str) -> None:
    assert superlinear(PASSES[name], 1500, cheap=0.004) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PASSES)
def test_no_pass_over_a_long_text_takes_time_quadratic_in_its_length(name: str) -> None:
    assert superlinear(PASSES[name], 25_000, cheap=0.2) == []
