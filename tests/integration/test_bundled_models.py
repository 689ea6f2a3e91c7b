"""The models of the repository together: which of them a request gets, by what it names and by its text."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.integration.conftest import BUNDLED, StartServer, shared

from xuanzang.client import AsyncTranslationClient, Translation, UnservedLanguageError
from xuanzang.text.traditional import with_traditional

CHINESE, ENGLISH = "今天天气很好。", "The weather is very nice today."
TO_EN, TO_ZH = ("zh-en", "en"), ("en-zh", "zh")


@shared
async def client(start_server: StartServer) -> AsyncIterator[AsyncTranslationClient]:
    async with start_server(models=BUNDLED) as running, AsyncTranslationClient(running.address) as opened:
        yield opened


def ways(*translations: Translation) -> list[tuple[str, str]]:
    return [(each.model, "zh" if re.search("[一-鿿]", each.text) else "en") for each in translations]


def searches_of(found: Translation) -> int:
    assert found.provenance
    return sum(each.searches for each in found.provenance.sentences)


async def test_both_directions_are_served_and_found_by_names_and_by_texts(client: AsyncTranslationClient) -> None:
    pairs = {model.name: (model.source_languages, model.target_languages) for model in await client.list_models()}
    assert pairs == {"zh-en": (("zh",), ("en",)), "en-zh": (("en",), with_traditional(["zh"]))}
    one: Any = client.translate_one
    for text, way, source, target in ((CHINESE, TO_EN, "zh-CN", "en-GB"), (ENGLISH, TO_ZH, "en", "zh")):
        named = [await one(text, model=way[0]), await one(text, source_language=source, target_language=target)]
        parts = [await one(text, source_language=source), await one(text, target_language=target)]
        detected = await one(text)
        assert ways(*named, *parts, detected) == [way] * 5
        assert len({each.text for each in (*named, *parts, detected)}) == 1
        assert detected.detected_language.startswith(source.partition("-")[0])


async def test_texts_and_pages_go_to_the_model_of_their_language_or_are_refused(client: AsyncTranslationClient) -> None:
    for text, model in (("猫", "zh-en"), ("OK", "en-zh"), ("Hello!", "en-zh"), ("用 Python 写", "zh-en")):
        assert (await client.translate_one(text)).model == model
    late = f"<script>{'let navigation = container; ' * 500}</script><p>1. 首页</p>"
    assert (await client.translate_one(late, content_format="html")).model == "zh-en"
    page = '<div class="navigation-container"><a href="https://example.com/about/us">首页</a></div>'
    translation = await client.translate_one(page, content_format="html")
    assert (translation.model, translation.text.count("navigation-container")) == ("zh-en", 1)
    texts = [CHINESE, "Das Wetter ist heute sehr schön.", "Bonjour, je suis un développeur à Paris."]
    with pytest.raises(UnservedLanguageError, match=r"is in de; what is translated: en, zh") as refusal:
        await client.translate(texts)
    assert [each.field for each in refusal.value.violations] == ["contents[1]", "contents[2]"]
    assert (refusal.value.detected_languages, refusal.value.served_languages) == (("de", "fr"), ("en", "zh"))
    async for each in client.translate_stream(texts, target_language="en"):
        assert isinstance(each.error, UnservedLanguageError) is (each.index > 0)
    passed = [each async for each in client.translate_stream(texts, target_language="en", pass_through_unserved=True)]
    assert {each.translation.text for each in passed if each.index} == set(texts[1:])
    # A language that is named is taken at its word.
    named = await client.translate_one(texts[1], source_language="zh", target_language="en")
    assert (named.detected_language, named.detected_language_confidence) == ("", None)


async def test_without_detection_the_script_of_a_text_tells_its_language(start_server: StartServer) -> None:
    async with (
        start_server(models=BUNDLED, detection=False) as running,
        AsyncTranslationClient(running.address) as client,
    ):
        with pytest.raises(UnservedLanguageError, match="is in another language; what is translated: en, zh"):
            await client.translate_one("Сегодня прекрасная погода.")
        assert ways(await client.translate_one(CHINESE), await client.translate_one(ENGLISH)) == [TO_EN, TO_ZH]
        found = [
            await client.translate_one(CHINESE, target_language="en"),
            await client.translate_one(ENGLISH, model="en-zh"),
        ]
        assert ways(*found) == [TO_EN, TO_ZH]


async def test_first_words_get_the_translation_of_the_lexicon(client: AsyncTranslationClient) -> None:
    words = {"hello": "你好", "Good morning!": "早上好！", "test": "测试", "再见": "Goodbye", "猫。": "Cat."}
    for text, translation in words.items():
        found = await client.translate_one(text, return_provenance=True)
        assert found.text == translation
        assert found.provenance
        assert [each.from_lexicon for each in found.provenance.sentences] == [True]
    markup = await client.translate_one("<b>hello</b> <i>Tom</i>", content_format="html", return_provenance=True)
    assert markup.provenance
    assert [each.from_lexicon for each in markup.provenance.sentences] == [False]
    assert (await client.translate_one("<p><b>hello</b></p>", content_format="html")).text == "<p><b>你好</b></p>"


async def test_amounts_alone_are_written_by_rule(client: AsyncTranslationClient) -> None:
    amounts = {
        "42万": "420,000",
        "20亿元": "2 billion yuan",
        "两千零八年": "2008",
        "四十二万。": "420,000.",
        "one hundred and one": "一百零一",
        "$2 billion": "20亿美元",
        "Dec": "十二月",
        "iPhone 15 Pro": "iPhone 15 Pro",
    }
    for text, translation in amounts.items():
        model = "en-zh" if text.isascii() else "zh-en"
        assert (await client.translate_one(text, model=model)).text == translation
    assert (await client.translate_one("<b>42万</b>", model="zh-en", content_format="html")).text == "<b>420,000</b>"


async def test_an_amount_that_a_translation_loses_is_required_of_another_search(
    client: AsyncTranslationClient,
) -> None:
    price, limit = "Total: $19.99", "为什么高速限速是一百二十公里？"
    options: dict[str, Any] = {"model": "en-zh", "return_provenance": True}
    found, plain = await client.translate([price, "The total is 5."], **options)
    assert "19.99美元" in found.text
    assert [searches_of(each) for each in (found, plain)] == [2, 1]
    assert "120" in (await client.translate_one(limit, model="zh-en")).text
    several = await client.translate_one(price, num_hypotheses=3, model="en-zh")
    assert all("19.99美元" in each.text or "$19.99" in each.text for each in several.hypotheses)
    html = await client.translate_one("<b>£</b><b>5</b> each", model="en-zh", content_format="html")
    assert "<b>5</b>" in html.text


@pytest.mark.parametrize(
    ("model", "text", "amount"),
    [
        ("en-zh", "It cost ₹5 million.", "₹500万"),
        ("en-zh", "The bridge cost £3 million to build.", "300万英镑"),
        ("zh-en", "他花了₩500万。", "₩5 million"),
        ("zh-en", "¥6万", "¥60,000"),
    ],
)
async def test_a_sign_that_the_model_lacks_leaves_the_amount_behind_it_whole(
    client: AsyncTranslationClient, model: str, text: str, amount: str
) -> None:
    assert amount in (await client.translate_one(text, model=model)).text


async def test_an_amount_is_not_required_where_the_caller_has_a_say_or_reads_along(
    client: AsyncTranslationClient,
) -> None:
    price, options = "Total: $19.99", dict[str, Any](model="en-zh", return_provenance=True)
    free = await client.translate_one(price, beam_size=1, **options)
    others: list[dict[str, Any]] = [
        {"target_prefix": "总"},
        {"suppressed_texts": ["美元"]},
        {"glossary": {"Total": "共"}},
    ]
    assert searches_of(free) == 1
    for each in others:
        found = await client.translate_one(price, **options, **each)
        assert "19.99美元" not in found.text
    streamed = [part.text_delta async for part in client.translate_progressively(price, model="en-zh")]
    assert "19.99美元" not in "".join(streamed)


async def test_first_words_are_in_a_language_of_the_models_and_sentences_in_their_own(
    client: AsyncTranslationClient,
) -> None:
    texts = ["hello", "Goodbye", "test", "你好", "Bonjour, comment allez-vous ?", "Guten Morgen, wie geht es dir?"]
    found = await client.detect_languages(texts)
    assert [languages[0].code for languages in found] == ["en", "en", "en", "zh", "fr", "de"]


async def test_a_first_word_has_other_hypotheses_too_and_options_are_obeyed(client: AsyncTranslationClient) -> None:
    several = await client.translate_one("hello", num_hypotheses=3, return_scores=True)
    assert several.hypotheses[0].text == "你好"
    assert len({each.text for each in several.hypotheses}) == 3
    assert several.hypotheses[0].score == 0
    alternatives = await client.translate(
        ["hello", ENGLISH], num_hypotheses=3, return_alternatives=True, return_provenance=True
    )
    assert alternatives[0].text == "你好"
    assert alternatives[0].provenance
    assert [each.from_lexicon for each in alternatives[0].provenance.sentences].count(True) == 1
    assert [len({each.text for each in found.hypotheses}) for found in alternatives] == [3, 3]
    alone = await client.translate_one(ENGLISH, num_hypotheses=3, return_alternatives=True)
    assert alone.hypotheses == alternatives[1].hypotheses
    for options in ({"target_prefix": "您"}, {"suppressed_texts": ["你"]}, {"glossary": {"hello": "哈喽"}}):
        found = await client.translate_one("hello", return_provenance=True, source_language="en", **options)
        assert found.provenance
        assert not any(each.from_lexicon for each in found.provenance.sentences)
    streamed = [part.text_delta async for part in client.translate_progressively("hello")]
    assert "".join(streamed) == "你好"
