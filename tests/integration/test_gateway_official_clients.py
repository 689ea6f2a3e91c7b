"""DeepL's and LibreTranslate's own clients against a gateway and a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deepl
import pytest
from gateways import RunningGateway, running_gateway
from libretranslatepy import LibreTranslateAPI
from tests.integration.conftest import shared

from xuanzang.client import AsyncTranslationClient

TEXTS = ["我有一只猫。", "他们有三只狗。老师有两只马。"]
Ask = Callable[..., Any]


@shared
async def expected(client: AsyncTranslationClient) -> list[str]:
    """What the server itself answers."""
    return [each.text for each in await client.translate(TEXTS, source_language="zh", target_language="en")]


def official(gateway: RunningGateway) -> deepl.DeepLClient:
    return deepl.DeepLClient("key", server_url=gateway.url)


async def test_deepl_translates_texts_and_a_text(gateway: RunningGateway, expected: list[str]) -> None:
    client = official(gateway)
    several = await asyncio.to_thread(client.translate_text, TEXTS, source_lang="ZH", target_lang="EN-GB")
    one = await asyncio.to_thread(client.translate_text, TEXTS[0], source_lang="zh", target_lang="EN-US")
    assert isinstance(several, list)
    assert isinstance(one, deepl.TextResult)
    assert [each.text for each in several] == expected
    assert [each.billed_characters for each in several] == [len(text) for text in TEXTS]
    assert (one.text, one.detected_source_lang) == (expected[0], "ZH")


async def test_deepl_detects_the_language_of_each_text(gateway: RunningGateway, expected: list[str]) -> None:
    texts = [TEXTS[0], "This is plainly an English sentence about the weather.", TEXTS[1], "42"]
    found = await asyncio.to_thread(official(gateway).translate_text, texts, target_lang="EN-US")
    assert isinstance(found, list)
    assert [each.text for each in found[:3]] == [expected[0], texts[1], expected[1]]
    assert [each.detected_source_lang for each in found] == ["ZH", "EN", "ZH", "EN"]


async def test_deepl_lists_languages_that_it_accepts(gateway: RunningGateway) -> None:
    client = official(gateway)
    sources = await asyncio.to_thread(client.get_source_languages)
    targets = await asyncio.to_thread(client.get_target_languages)
    assert [(each.code, each.name) for each in sources] == [("ZH", "Chinese")]
    assert [(each.code, each.supports_formality) for each in targets] == [("EN-GB", False), ("EN-US", False)]
    for target in targets:
        await asyncio.to_thread(client.translate_text, "猫", source_lang=sources[0], target_lang=target)
    assert not (await asyncio.to_thread(client.get_usage)).any_limit_reached


async def test_deepl_stores_uses_reads_and_deletes_a_glossary(
    start_server: Any, tiny_bundle_repository: Path, tmp_path: Path
) -> None:
    def use(url: str) -> None:
        client = deepl.DeepLClient("key", server_url=url)
        made = client.create_glossary("My animals", "ZH", "EN", {"猫": "tiger", "狗": "horse"})
        assert (made.source_lang, made.target_lang, made.entry_count) == ("ZH", "EN", 2)
        assert [each.glossary_id for each in client.list_glossaries()] == [made.glossary_id]
        assert client.get_glossary_entries(made) == {"猫": "tiger", "狗": "horse"}
        found = client.translate_text_with_glossary("我有一只猫。", made)
        assert isinstance(found, deepl.TextResult)
        assert "tiger" in found.text
        other = client.create_glossary("My animals", "ZH", "EN", {"猫": "cat"})
        assert (other.name, other.glossary_id == made.glossary_id) == ("My animals", False)
        client.delete_glossary(other)
        assert [(each.source_lang, each.target_lang) for each in client.get_glossary_languages()] == [("zh", "en")]
        client.delete_glossary(made)
        for call in (client.delete_glossary, client.get_glossary, client.get_glossary_entries):
            with pytest.raises(deepl.GlossaryNotFoundException):
                call(made.glossary_id)
        csv = client.create_glossary_from_csv("csv", "ZH", "EN", '猫,"cat, big"')
        assert client.get_glossary_entries(csv) == {"猫": "cat, big"}

    (tmp_path / "tiny").symlink_to(tiny_bundle_repository / "tiny")
    async with (
        start_server(models=tmp_path, glossary_writers="*") as running,
        running_gateway(running.address) as gateway,
    ):
        await asyncio.to_thread(use, gateway.url)


async def test_libretranslate_translates_detects_and_lists(gateway: RunningGateway, expected: list[str]) -> None:
    client = LibreTranslateAPI(gateway.url, api_key="key")
    assert await asyncio.to_thread(client.translate, TEXTS[0], "zh", "en") == expected[0]
    assert await asyncio.to_thread(client.translate, TEXTS[1], "auto", "en") == expected[1]
    (detected, *_) = await asyncio.to_thread(client.detect, "今天天气很好，我们去公园吧。")
    assert detected["language"] == "zh"
    assert 50 < detected["confidence"] <= 100
    assert await asyncio.to_thread(client.languages) == [
        {"code": "zh", "name": "Chinese", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": []},
    ]


async def test_the_calls_of_mastodon_and_discourse_are_answered(gateway: RunningGateway, expected: list[str]) -> None:
    body = {"q": TEXTS, "source": "auto", "target": "en", "format": "text", "api_key": ""}
    answer = await gateway.post("/translate", json=body)
    assert answer.json["translatedText"] == expected
    assert [each["language"] for each in answer.json["detectedLanguage"]] == ["zh", "zh"]
    assert (await gateway.get("/frontend/settings")).json["language"]["target"] == {"code": "en", "name": "English"}
    multipart = await gateway.post("/translate", multipart={"q": TEXTS[0], "source": "zh", "target": "en"})
    assert multipart.json == {"translatedText": expected[0]}


async def test_libretranslate_gives_alternatives_and_names_faulty_parameters(gateway: RunningGateway) -> None:
    body: dict[str, Any] = {"q": TEXTS[0], "source": "zh", "target": "en", "alternatives": 2}
    answer = await gateway.post("/translate", json=body)
    assert len({answer.json["translatedText"], *answer.json["alternatives"]}) == 3
    for changes, message in (
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"source": None}, "Invalid request: missing source parameter"),
        ({"q": ["猫", 1]}, "q[1]: must be a string"),
        ({"format": "pdf"}, 'format: must be "html" or "text"'),
        ({"alternatives": 99}, "alternatives: must be a whole number"),
        ({"q": "猫狗。猫狗。"}, "alternatives: "),
    ):
        changed = {name: value for name, value in (body | changes).items() if value is not None}
        answer = await gateway.post("/translate", json=changed)
        assert (answer.status, message in answer.json["error"]) == (400, True), answer.json
