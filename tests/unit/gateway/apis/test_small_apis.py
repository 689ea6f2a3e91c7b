"""hcfy, immersive-translate, Microsoft, LibreTranslate: what tells them from other APIs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from gateways import Answer, RunningGateway, running_gateway
from stand_in_server import KEY, StandIn, standing_in

from xuanzang.translation.v1 import translation_pb2 as pb


@pytest.fixture(scope="module")
def stand_in() -> StandIn:
    phrases = [{"en": "hello", "zh": "你好"}, {"en": "cat", "zh": "猫"}]
    detected = {"hello": "en", "Hello": "en", "cat": "en", "猫": "zh"}
    return StandIn(sources=("en", "zh"), targets=("en", "zh", "es", "zh-Hant"), detected=detected, phrases=phrases)


async def test_hcfys_second_language_is_for_texts_in_the_first(gateway: RunningGateway) -> None:
    answer = await gateway.post("/hcfy", json={"text": "猫\n猫", "destination": ["中文(简体)", "英语"]})
    assert answer.json == {"text": "猫\n猫", "from": "中文(简体)", "to": "英语", "result": ["cat", "cat"]}


async def test_the_key_is_the_token_that_microsofts_clients_ask_for(guarded: RunningGateway) -> None:
    path = "/sts/v1.0/issueToken"
    given = await guarded.post(path, data=b"", ocp_apim_subscription_key=KEY)
    assert (given.status, given.body.decode()) == (200, KEY)
    assert (await guarded.post(path, data=b"")).status == 401
    assert (await guarded.post(path, data=b"", ocp_apim_subscription_key="xz_wrong")).status == 401


async def test_placeholders_of_immersive_translate_are_tags_and_the_rest_is_text(
    gateway: RunningGateway, server: StandIn
) -> None:
    texts = ["<b0></b0> hello <b1>AT&T < you</b1>", "hello"]
    answer = await gateway.post("/imme", json={"source_lang": "en", "target_lang": "zh-CN", "text_list": texts})
    asked = server.asked[-1]
    assert list(asked.contents) == ["<b0></b0> hello <b1>AT&amp;T &lt; you</b1>", "hello"]
    assert asked.settings.content_format == pb.CONTENT_FORMAT_HTML
    assert [each["text"] for each in answer.json["translations"]] == ["<b0></b0> 你好 <b1>AT&T < you</b1>", "你好"]


async def test_microsoft_translates_each_text_into_each_language(gateway: RunningGateway, server: StandIn) -> None:
    path = "/translate?api-version=3.0&to=zh-Hans&to=en&textType=html"
    answer = await gateway.post(path, json=[{"Text": "hello"}])
    (one,) = answer.json
    assert one["detectedLanguage"] == {"language": "en", "score": pytest.approx(0.9)}
    assert one["translations"] == [{"text": "你好", "to": "zh-Hans"}, {"text": "hello", "to": "en"}]
    assert server.asked[-1].settings.content_format == pb.CONTENT_FORMAT_HTML


async def test_the_official_client_of_microsoft_works(guarded: RunningGateway, server: StandIn) -> None:
    text = pytest.importorskip("azure.ai.translation.text", reason="azure-ai-translation-text is not installed")
    core = pytest.importorskip("azure.core.exceptions")
    credential = pytest.importorskip("azure.core.credentials").AzureKeyCredential(KEY)
    client = text.TextTranslationClient(endpoint=guarded.url, credential=credential, region="any")
    (made,) = await asyncio.to_thread(client.translate, body=["hello"], to_language=["zh"])
    assert (made.translations[0].text, made.detected_language.language) == ("你好", "en")
    with pytest.raises(core.HttpResponseError, match="xx"):
        await asyncio.to_thread(client.translate, body=["hello"], to_language=["xx"])
    server.needs_key = False
    listed = await asyncio.to_thread(client.get_supported_languages, scope="translation")
    assert listed.translation["en"].name == "English"


async def test_microsoft_detects_languages(gateway: RunningGateway) -> None:
    answer = await gateway.post("/detect?api-version=3.0", json=[{"Text": "hello"}])
    (found,) = answer.json
    assert (found["language"], found["isTranslationSupported"]) == ("en", True)


async def test_what_is_asked_for_is_not_sent_and_detection_is_not_asked_for(gateway: RunningGateway) -> None:
    for path in ("/languages", "/frontend/settings", "/spec", "/health"):
        assert ((await gateway.get(path)).status, (await gateway.post(path)).status) == (200, 405)
    assert (await gateway.get("/detect")).status == 405


async def test_traditional_chinese_has_its_old_code(gateway: RunningGateway, server: StandIn) -> None:
    await gateway.post("/translate", json={"q": "Hello", "source": "en", "target": "zt"})
    assert server.asked[-1].settings.target_language_code == "zh-Hant"


async def test_tags_are_tags_if_the_format_says_so(gateway: RunningGateway, server: StandIn) -> None:
    for form, sent in (("html", pb.CONTENT_FORMAT_HTML), ("text", pb.CONTENT_FORMAT_UNSPECIFIED)):
        await gateway.post("/translate", json={"q": "<b>a</b>", "source": "en", "target": "zh", "format": form})
        assert server.asked[-1].settings.content_format == sent


@pytest.mark.parametrize(("settings", "status"), [({"listing_key": KEY}, 200), ({}, 403)])
async def test_languages_are_listed_without_a_key_if_the_gateway_has_one(settings: Any, status: int) -> None:
    async def listed(gateway: RunningGateway, **headers: str) -> Answer:
        return await gateway.get("/languages", **headers)

    server = StandIn(needs_key=True)
    async with standing_in(server) as address, running_gateway(address, anonymous=False, **settings) as gateway:
        assert (await listed(gateway)).status == status
        assert (await gateway.get("/frontend/settings")).status == status
        assert (await listed(gateway, authorization=f"Bearer {KEY}")).status == 200
        assert (await gateway.post("/translate", json={"q": "a", "source": "zh", "target": "en"})).status == 403


async def test_json_that_is_sent_as_text_is_read(gateway: RunningGateway) -> None:
    data = b'{"q": "Hello", "source": "en", "target": "es"}'
    answer = await gateway.post("/translate", data=data, content_type="text/plain;charset=UTF-8")
    assert answer.json == {"translatedText": "HELLO"}
    array = await gateway.post("/translate", data=b"[]", content_type="application/json")
    assert array.json == {"error": "the body must be a JSON object"}
