"""Terms that the model reads in the source, with the bundled models: what is written, reported and said of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.conftest import BUNDLED

from xuanzang.server import Translation, Translator

# No hypothesis of a free search holds its terms as often as the source.
MISSED = "微信微信微信打印机。"
PRODUCTS = Path(__file__).parents[1] / "support" / "product_sentences.tsv"
POLITE = ("Please open WeChat.", "Open WeChat, please.", "Please turn on WeChat.")
TERMS = {
    "微信": "WeChat",
    "保修卡": "warranty card",
    "打印机": "printer",
    "三体": "The Three-Body Problem",
    "电影": "Kinofilm",
    "新华字典": "Xinhua Dictionary",
}
TEXTS = [
    "请打开微信。",
    MISSED,
    "我昨天去看了三体。",
    "打印机需要充电。",
    "打印机打电话来了。",
    "我们明天再谈新华字典吧。",
    "你好。",
    "我昨天去看了电影。",
    "我的微信在哪里？",
]


@pytest.fixture(scope="module")
def translator() -> Iterator[Translator]:
    with Translator(BUNDLED, workers=1) as translator:
        yield translator


def translate(translator: Translator, text: str, **options: object) -> Translation:
    settings = {"model": "zh-en", "glossary": TERMS, "return_provenance": True, "return_scores": True}
    return translator.translate_one(text, **settings | options)  # type: ignore[arg-type]


def test_a_sentence_is_written_around_its_term(translator: Translator) -> None:
    translation = translate(translator, "请打开微信。")
    assert translation.text in POLITE
    assert translation.provenance is not None
    [sentence] = translation.provenance.sentences
    assert sentence.source_with_terms == "请打开 WeChat。"
    assert (sentence.searches, sentence.terms_required) == (1, False)


def test_a_sentence_whose_term_is_missing_is_searched_again_with_the_term_required(translator: Translator) -> None:
    translation = translate(translator, MISSED)
    assert translation.text.count("WeChat") == 3
    assert translation.provenance is not None
    [sentence] = translation.provenance.sentences
    assert (sentence.searches, sentence.terms_required) == (2, True)


def test_a_name_that_the_model_writes_otherwise_is_spelled_as_asked_after_one_search(translator: Translator) -> None:
    options = {"model": "en-zh", "glossary": {"text document": "泽菲1号"}, "token_details": True}
    translation = translate(translator, "In your text document, do one of the following:", **options)
    # The model writes 泽菲1 号.
    assert "泽菲1号" in translation.text
    assert "".join(token.text for token in translation.hypotheses[0].tokens) == translation.text
    assert [match.target for match in translation.glossary_matches] == ["泽菲1号"]
    assert translation.provenance is not None
    [sentence] = translation.provenance.sentences
    assert (sentence.searches, sentence.terms_required) == (1, False)


def test_reports_and_spans_are_those_of_the_text_of_the_caller(translator: Translator) -> None:
    text = "你好。请打开微信。"
    translation = translate(translator, text, token_details=True)
    [match] = translation.glossary_matches
    assert (text[match.source_start : match.source_end], match.target) == ("微信", "WeChat")
    [hypothesis] = translation.hypotheses
    named = [token for token in hypothesis.tokens if token.text.strip() and token.text.strip() in "WeChat"]
    assert named
    assert {text[token.source_start : token.source_end] for token in named} == {"微信"}
    assert all(0 <= token.source_start <= token.source_end <= len(text) for token in hypothesis.tokens)


def test_an_answer_does_not_depend_on_its_company_though_some_are_searched_again(translator: Translator) -> None:
    options = {"model": "zh-en", "glossary": TERMS, "return_scores": True}
    together = translator.translate(TEXTS * 3, **options)  # type: ignore[arg-type]
    alone = [translator.translate_one(text, **options) for text in TEXTS] * 3  # type: ignore[arg-type]
    assert [each.hypotheses for each in together] == [each.hypotheses for each in alone]


def test_every_hypothesis_holds_the_term_and_none_is_there_twice(translator: Translator) -> None:
    for text, target in ((TEXTS[0], "WeChat"), (MISSED, "printer"), (TEXTS[2], "The Three-Body Problem")):
        found = [each.text for each in translate(translator, text, num_hypotheses=4).hypotheses]
        assert len(set(found)) == 4
        assert all(target in each for each in found)


def test_what_was_emitted_is_the_beginning_of_the_answer(translator: Translator) -> None:
    for text in TEXTS:
        parts = list(translator.translate_progressively(text, model="zh-en", glossary=TERMS))
        last = parts[-1].translation
        assert last is not None
        assert "".join(part.text_delta for part in parts) == last.text == translate(translator, text).text


def test_markup_stands_around_a_term_in_the_source(translator: Translator) -> None:
    translation = translate(translator, "<p>请打开<b>微信</b>。</p>", content_format="html")
    assert "<b>WeChat</b>" in translation.text
    assert re.sub("<.*?>", "", translation.text) in POLITE


@pytest.mark.parametrize("model", ["zh-en", "en-zh"])
def test_product_sentences_keep_their_terms_and_few_need_a_second_search(translator: Translator, model: str) -> None:
    rows = [line.split("\t") for line in PRODUCTS.read_text(encoding="utf-8").splitlines()]
    chosen = [(text, term, target) for name, text, term, target in rows if name == model][::8]
    searches = 0
    for text, term, target in chosen:
        translation = translate(translator, text, model=model, glossary={term: target})
        assert target in translation.text
        assert translation.provenance is not None
        searches += sum(sentence.searches for sentence in translation.provenance.sentences)
    assert len(chosen) <= searches <= 1.2 * len(chosen)


def test_a_chinese_name_does_not_go_on(translator: Translator) -> None:
    translation = translate(translator, "Please open DingTalk.", model="en-zh", glossary={"DingTalk": "钉钉"})
    assert translation.text == "请打开钉钉。"
