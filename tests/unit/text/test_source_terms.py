"""Sentences with translations in the place of terms, and the way back to the sentence of the caller."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.text.terminology.source_terms import with_terms


def put(text: str, **terms: str) -> str:
    places = sorted((text.index(source), source) for source in terms)
    return with_terms(text, [((at, at + len(source)), terms[source]) for at, source in places]).text


@pytest.mark.parametrize(
    ("text", "terms", "expected"),
    [
        ("请打开微信。", {"微信": "WeChat"}, "请打开 WeChat。"),
        ("微信很好", {"微信": "WeChat"}, "WeChat 很好"),
        ("我用“微信”付钱", {"微信": "WeChat"}, "我用“WeChat”付钱"),
        ("微信支付宝", {"微信": "WeChat", "支付宝": "Alipay"}, "WeChat Alipay"),
        ("用C语言", {"C": "C++"}, "用 C++语言"),
        ("Open WeChat, please.", {"WeChat": "微信"}, "Open 微信, please."),
        ("看电影吧", {"电影": "影片"}, "看影片吧"),
        ("用微信App", {"微信": "WeChat"}, "用 WeChat App"),
    ],
)
def test_translations_get_the_spaces_that_their_script_wants(text: str, terms: dict[str, str], expected: str) -> None:
    assert put(text, **terms) == expected


def test_spans_lead_back_to_the_text_of_the_caller() -> None:
    text = "请打开微信。"
    read = with_terms(text, [((3, 5), "WeChat")])
    places = {"请打开": (0, 3), " WeChat": (4, 10), "We": (4, 6), "Chat": (6, 10), "。": (10, 11)}
    before = {part: text[slice(*read.before([span])[0])] for part, span in places.items()}
    assert before == {"请打开": "请打开", " WeChat": "微信", "We": "微信", "Chat": "微信", "。": "。"}
    # The space belongs to the term, the characters on both sides of it do not.
    assert read.before([(3, 4), (2, 3), (2, 6)]) == [(3, 5), (2, 3), (2, 5)]


@given(
    parts=st.lists(st.tuples(st.text("字ab 。", max_size=4), st.text("词xy", min_size=1, max_size=3)), max_size=4),
    target=st.text("术CD+", min_size=1, max_size=4),
    end=st.text("字ab 。", max_size=4),
)
def test_all_that_is_no_term_leads_back_to_itself(parts: list[tuple[str, str]], target: str, end: str) -> None:
    text, places = "", []
    for between, term in parts:
        text += between
        places.append((len(text), len(text) + len(term)))
        text += term
    text += end
    read = with_terms(text, [(place, target) for place in places])
    inside = [at for replacement in read.replacements for at in range(*replacement.new)]
    for at, character in enumerate(read.text):
        [(first, last)] = read.before([(at, at + 1)])
        assert (first, last) in places if at in inside else text[first:last] == character
    assert [read.before([new])[0] for new, _ in read.replacements] == places
