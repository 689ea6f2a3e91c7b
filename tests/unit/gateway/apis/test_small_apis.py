"""hcfy, immersive-translate and Microsoft: what tells them from other APIs."""

from __future__ import annotations

import asyncio

import pytest
from gateways import RunningGateway
from stand_in_server import KEY, StandIn

from xuanzang.translation.v1 import translation_pb2 as pb


@pytest.fixture(scope="module")
def stand_in() -> StandIn:
    phrases = [{"en": "hello", "zh": "你好"}, {"en": "cat", "zh": "猫"}]
    detected = {"hello": "en", "cat": "en", "猫": "zh"}
    return StandIn(sources=("en", "zh"), targets=("en", "zh"), detected=detected, phrases=phrases)


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
