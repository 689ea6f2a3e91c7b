"""Punctuation as Moses normalises it, and the characters that what is left stands for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacremoses import MosesPunctNormalizer

from xuanzang.text.offsets import Punctuation

CHARACTERS = "aZ19 .,:;!?()%<>'`\"\r\t\n\u00a0«»„“”‘’‚´–—…º猫，。"
MARKS = ["nº\u00a0", "\u00a0ºC", "\u00a0cm", "''", "´´", '..."', '",', " ) .", "1\u00a0234", "« mot »"]
texts = st.lists(st.sampled_from([*CHARACTERS, *MARKS]), max_size=24).map("".join)
languages = st.sampled_from(["en", "de", "zh"])


@given(texts, languages)
def test_punctuation_is_normalised_as_by_sacremoses(text: str, language: str) -> None:
    assert Punctuation(language).normalize(text) == MosesPunctNormalizer(language).normalize(text)


@given(texts, languages)
def test_spans_lie_in_the_text_in_its_order_and_letters_keep_their_own(text: str, language: str) -> None:
    punctuation = Punctuation(language)
    normalized = punctuation.normalize(text)
    spans = punctuation.before(text, [(place, place + 1) for place in range(len(normalized))])
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert sorted(spans) == spans
    assert punctuation.before(text, [(0, len(normalized))]) == [(spans[0][0], spans[-1][1])] if spans else True
    for character, (start, end) in zip(normalized, spans, strict=True):
        if character in "aZ19猫":
            assert character in text[start:end]


@pytest.mark.parametrize(
    ("text", "normalized", "words"),
    [
        ("«\u00a0Oui\u00a0», dit-il…", '"Oui", dit-il...', {"Oui": "Oui", "dit-il": "dit-il", "...": "…"}),
        ("(猫)  “a”", '(猫) "a"', {"猫": "猫", '"a"': "“a”"}),
        ("l’été — fin", "l'été - fin", {"l'été": "l’été", "-": "—", "fin": "fin"}),
    ],
)
def test_spans_of_words_are_those_of_the_text_before(text: str, normalized: str, words: dict[str, str]) -> None:
    punctuation = Punctuation("fr")
    assert punctuation.normalize(text) == normalized
    spans = [(normalized.index(word), normalized.index(word) + len(word)) for word in words]
    assert [text[start:end] for start, end in punctuation.before(text, spans)] == [*words.values()]
