from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right

from hypothesis import given
from hypothesis import strategies as st

from xuanzang.text.offsets import before_nfkc

# Characters that expand, compose, change their order, or stay: letters, accents, Hangul, Indic vowels, kana marks.
CHARACTERS = "aé猫…ﷺ½①ﬁΩÅ가각 e\u0301\u0327\u0344\u1100\u1161\u11a8\u0bc6\u0bbe\u09c7\u09beか\u3099\u309aｶﾞ"
texts = st.text(alphabet=CHARACTERS, min_size=1, max_size=16) | st.text(min_size=1, max_size=8)


@given(texts)
def test_spans_are_those_of_normalising_every_beginning_of_the_text(text: str) -> None:
    normalized = unicodedata.normalize("NFKC", text)
    spans = [(start, end) for start in range(len(normalized)) for end in range(start + 1, len(normalized) + 1)]
    lengths = [len(unicodedata.normalize("NFKC", text[:end])) for end in range(len(text) + 1)]
    expected = [(bisect_right(lengths, start) - 1, bisect_left(lengths, end)) for start, end in spans]
    assert before_nfkc(text, spans) == expected
