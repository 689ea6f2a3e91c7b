"""Documents whose sentences are translated at random: tags and text must come through, whatever the model says."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import cast

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from markup_fragments import fragment, tags, text_of

from xuanzang.server.engine.calls.results import copied, with_markup
from xuanzang.server.engine.types import FinishReason, Hypothesis
from xuanzang.text.codec import Segment, TextCodec
from xuanzang.text.markup.contents import SplitDocument, split_document
from xuanzang.text.markup.parsing import parse
from xuanzang.text.markup.tokens import TokenKind, html_tokens
from xuanzang.text.offsets import Span
from xuanzang.text.sentences import Joiner, is_copied, seen_text, split_sentences
from xuanzang.text.types import ContentFormat, TokenDetail

WORDS = ("The", "cat", "is", "<here>", "&", "100", "and", "Beijing", ",", "x.y", "“quoted”", "é")
FORMATS = [ContentFormat.HTML, ContentFormat.XML]


class RandomCodec:
    """Splits as the engine does; its translations are words at random, aligned at random."""

    def __init__(self, *, spaced: bool = True) -> None:
        self.is_spaced = spaced

    def split(self, text: str, *, refuse_long: bool, unbroken: Sequence[Span], words: Sequence[Span]) -> list[Segment]:
        assert not unbroken
        assert not words
        return [
            Segment(text=part, source_ids=() if is_copied(seen_text(part)) else (1,)) for part in split_sentences(text)
        ]

    def joiner(self) -> Joiner:
        return Joiner(spaced=self.is_spaced)


def translations(split: SplitDocument, rng: random.Random) -> list[list[Hypothesis]]:
    """Translate the sentences of each block, with spans in the text of the block."""
    hypotheses = []
    for block in split.blocks:
        start = 0
        for segment in block.segments:
            end = start + len(segment.text)
            if segment.source_ids:
                hypotheses.append([translation(rng, start, end)])
            start = end
    return hypotheses


def translation(rng: random.Random, start: int, end: int) -> Hypothesis:
    words = [rng.choice(WORDS) for _ in range(rng.randint(1, 8))]
    places = [sorted(rng.choices(range(start, end + 1), k=2)) for _ in words]
    tokens = tuple(
        TokenDetail(text=(" " if number else "") + word, score=-1.0, source_start=first, source_end=last)
        for number, (word, (first, last)) in enumerate(zip(words, places, strict=True))
    )
    text = "".join(token.text for token in tokens)
    return Hypothesis(
        text=text, score=-1.0, token_count=len(tokens) + 1, finish_reason=FinishReason.END_OF_SENTENCE, tokens=tokens
    )


def translate(content: str, content_format: ContentFormat, seed: int, *, spaced: bool = True) -> tuple[str, str]:
    """Return a translation with its tags, and the plain translations of the texts of its blocks."""
    codec = cast("TextCodec", RandomCodec(spaced=spaced))
    split = split_document(content, parse(content, content_format), codec, refuse_long=False)
    hypotheses = translations(split, random.Random(seed))
    [answer] = with_markup(split, iter(hypotheses), codec)
    assert not answer.tokens
    return answer.text, plain(split, iter(hypotheses), codec)


def plain(split: SplitDocument, remaining: Iterator[Sequence[Hypothesis]], codec: TextCodec) -> str:
    """Join the translations of the blocks, and the white space between them."""
    texts: list[str] = []
    for part in split.parts:
        if isinstance(part, str):
            texts += [token.text for token in html_tokens(part)]
        else:
            parts = [next(remaining)[0] if each.source_ids else copied(each.text) for each in part.segments]
            texts += codec.joiner().pieces([each.text for each in parts])
    return "".join(texts)


ISLANDS = ("<code>f(x)</code>", '<span translate="no">小米</span>', "<pre>a\n b</pre>")
"""What is not translated."""


@settings(max_examples=400)
@given(st.integers(0, 10**9), st.sampled_from(FORMATS), st.booleans(), st.booleans())
def test_content_keeps_all_tags_the_plain_translation_and_what_is_not_translated(
    seed: int, content_format: ContentFormat, spaced: bool, with_islands: bool
) -> None:
    content = fragment(seed, with_islands=with_islands)
    written, expected = translate(content, content_format, seed, spaced=spaced)
    assert tags(written) == tags(content)
    assert text_of(written) == expected or with_islands
    assert [written.count(island) for island in ISLANDS] == [content.count(island) for island in ISLANDS]


@settings(max_examples=250)
@given(st.text(alphabet="<>/&;!-[]'\"=ab p猫。 \n", max_size=60), st.integers(0, 99))
def test_any_text_is_html_whose_tags_all_come_back(content: str, seed: int) -> None:
    assume("<![" not in content)  # it may be refused
    written, _ = translate(content, ContentFormat.HTML, seed)
    assert tag_tokens(written) == tag_tokens(content)


def tag_tokens(content: str) -> list[str]:
    return sorted(token.raw for token in html_tokens(content) if token.kind is not TokenKind.TEXT)


@pytest.mark.parametrize(
    ("content", "words", "expected"),
    [
        ("<b>猫</b>。", [("The", "猫"), (" cat", "猫"), (".", "。")], "<b>The cat</b>."),
        ("我<b>看</b>狗", [("dogs", "狗"), (" I", "我"), (" see", "看")], "dogs I <b>see</b>"),
        ("我<i>看<b>狗</b></i>", [("I", "我"), (" dogs", "狗"), (" see", "看")], "I <i><b>dogs</b> see</i>"),
        ("我<img>看狗", [("I", "我"), (" see", "看"), (" dogs", "狗")], "I<img> see dogs"),
        ("<p><b>我<p>看</b>", [("I", "我"), ("see", "看")], "<p><b>I<p>see</b>"),
        ("看<code>狗</code>我", [("I", "我"), (" see", "看"), (" a dog", "狗")], "I see <code>狗</code>"),
        ("看<code>x</code>我", [("I", "我"), (" see", "看")], "<code>x</code> I see"),
        ("看&copy;我", [("I", "我"), (" ©", "©"), (" see", "看")], "I &copy; see"),
        ("我&nbsp;", [("I", "我")], "I&nbsp;"),
        ("<p>1.</p><pre>狗</pre>", [], "<p>1.</p><pre>狗</pre>"),
    ],
)
def test_tags_are_around_the_words_of_theirs(content: str, words: Sequence[tuple[str, str]], expected: str) -> None:
    codec = cast("TextCodec", RandomCodec())
    split = split_document(content, parse(content, ContentFormat.HTML), codec, refuse_long=False)
    remaining = list(words)
    hypotheses = []
    for block, segments, _ in split.blocks:
        if any(segment.source_ids for segment in segments):
            mine = [remaining.pop(0) for _ in list(remaining) if remaining[0][1] in block.text]
            hypotheses.append([aligned(block.text, mine)])
    [answer] = with_markup(split, iter(hypotheses), codec)
    assert answer.text == expected


def aligned(source: str, words: Sequence[tuple[str, str]]) -> Hypothesis:
    tokens = tuple(
        TokenDetail(text=text, score=-1.0, source_start=source.index(origin), source_end=source.index(origin) + 1)
        for text, origin in words
    )
    text = "".join(text for text, _ in words)
    return Hypothesis(text=text, score=-1, token_count=9, finish_reason=FinishReason.END_OF_SENTENCE, tokens=tokens)
