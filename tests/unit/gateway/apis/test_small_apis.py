"""Requests of translation tools, as their sources send them, with and without keys, and how they read the answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import pytest
from gateways import Answer, RunningGateway
from stand_in_server import KEY, StandIn

from xuanzang.translation.v1 import translation_pb2 as pb

FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A request of a tool; {key} stands for the key that its user enters, which is empty without one."""

    path: str
    body: Any
    read: Callable[[Any], Any]
    """How the tool reads the answer."""
    expected: Any = "HELLO"
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    sends_key: bool = True
    """Whether the tool sends a key in a way that can be read: SubtitleEdit's JSON with one lacks a comma."""
    is_older: bool = False
    """Whether the API is LibreTranslate's or DeepL's, which refuse keys with another status."""


REPLAYS = {
    "read-frog": Replay(
        path="/translate?token={key}",
        body={"text": "hello", "source_lang": "auto", "target_lang": "ZH"},
        read=lambda answer: answer["data"],
    ),
    "Bob": Replay(
        path="/translate?token={key}",
        body={"text": "hello", "source_lang": "EN", "target_lang": "ZH"},
        read=lambda answer: [answer["data"].split("\n"), "\n".join(answer["alternatives"])],
        expected=[["HELLO"], ""],
    ),
    "kiss-translator, DeepLX": Replay(
        path="/translate",
        body={"text": "hello", "target_lang": "ZH", "source_lang": "EN"},
        read=lambda answer: [answer["data"], answer["source_lang"]],
        expected=["HELLO", "EN"],
        headers={"authorization": "Bearer {key}"},
    ),
    "DeepLX from a page of a browser": Replay(
        path="/translate?token={key}",
        body={"text": "hello", "source_lang": "EN", "target_lang": "ZH"},
        read=lambda answer: [answer["code"], answer["data"]],
        expected=[200, "HELLO"],
        content_type="text/plain;charset=UTF-8",
    ),
    "immersive-translate": Replay(
        path="/imme?token={key}",
        body={"source_lang": "auto", "target_lang": "zh-CN", "text_list": ["hello", "cat"]},
        read=lambda answer: [(each["text"], each["detected_source_lang"]) for each in answer["translations"]],
        expected=[("HELLO", "en"), ("CAT", "en")],
    ),
    "immersive-translate, at the address of others": Replay(
        path="/translate?token={key}",
        body={"source_lang": "en", "target_lang": "zh-CN", "text_list": ["hello"]},
        read=lambda answer: [each["text"] for each in answer["translations"]],
        expected=["HELLO"],
    ),
    "kiss-translator": Replay(
        path="/kiss",
        body={"text": "hello", "from": "auto", "to": "zh-CN"},
        read=lambda answer: [answer["text"], answer["src"]],
        expected=["HELLO", "en"],
        headers={"authorization": "Bearer {key}"},
    ),
    "kiss-translator, several texts": Replay(
        path="/kiss",
        body={"texts": ["hello", "cat"], "from": "en", "to": "zh-CN"},
        read=lambda answer: [[each["text"], each["src"]] for each in answer["translations"]],
        expected=[["HELLO", "en"], ["CAT", "en"]],
        headers={"authorization": "Bearer {key}"},
    ),
    "kiss-translator, with a header of its own": Replay(
        path="/kiss",
        body={"text": "hello", "from": "en", "to": "zh-CN"},
        read=lambda answer: answer["text"],
        headers={"KEY": "{key}"},
    ),
    "zotero-pdf-translate": Replay(
        path="/translate",
        body={"text": "hello", "from": "en", "to": "zh-Hans"},
        read=lambda answer: answer["result"],
        headers={"authorization": "{key}"},
    ),
    "STranslate, MTranServer": Replay(
        path="/translate?token={key}",
        body={"from": "en", "to": "zh", "text": "hello"},
        read=lambda answer: answer["result"],
        content_type="application/json; charset=utf-8",
    ),
    "MTranServer's batches": Replay(
        path="/translate/batch",
        body={"from": "en", "to": "zh-Hans", "texts": ["hello", "cat"], "html": False},
        read=lambda answer: answer["results"],
        expected=["HELLO", "CAT"],
        headers={"authorization": "Bearer {key}"},
    ),
    "STranslate, Microsoft": Replay(
        path="/translate?api-version=3.0&to=zh-Hans",
        body=[{"text": "hello"}],
        read=lambda answer: [answer[0]["translations"][0]["text"], answer[0]["detectedLanguage"]["language"]],
        expected=["HELLO", "en"],
        content_type="application/json; charset=utf-8",
        headers={"Ocp-Apim-Subscription-Key": "{key}", "Ocp-Apim-Subscription-Region": ""},
    ),
    "kiss-translator, Microsoft": Replay(
        path="/translate?api-version=3.0&from=en&to=zh-Hans",
        body=[{"Text": "hello"}, {"Text": "cat"}],
        read=lambda answer: [" ".join(each["text"] for each in one["translations"]) for one in answer],
        expected=["HELLO", "CAT"],
        headers={"Ocp-Apim-Subscription-Key": "{key}", "Ocp-Apim-Subscription-Region": "global"},
    ),
    "OmegaT": Replay(
        path="/translate?q=hello+cat&markUnknown=no&langpair=en|zh_CN&key={key}",
        body=None,
        read=lambda answer: [answer["responseStatus"], answer["responseData"]["translatedText"]],
        expected=[200, "HELLO CAT"],
    ),
    "Weblate": Replay(
        path="/translate",
        body={"api_key": "{key}", "q": "hello", "source": "en", "target": "zh"},
        read=lambda answer: answer["translatedText"],
        content_type=FORM,
        is_older=True,
    ),
    "Mastodon": Replay(
        path="/translate",
        body={"q": ["hello", "cat"], "source": "auto", "target": "zh", "format": "html", "api_key": "{key}"},
        read=lambda answer: [answer["translatedText"], [each["language"] for each in answer["detectedLanguage"]]],
        expected=[["HELLO", "CAT"], ["en", "en"]],
        is_older=True,
    ),
    "Discourse, detection": Replay(
        path="/detect",
        body={"q": "hello", "api_key": "{key}"},
        read=lambda answer: answer[0]["language"],
        expected="en",
        content_type=FORM,
        is_older=True,
    ),
    "Easydict": Replay(
        path="/v2/translate",
        body={"text": "hello", "source_lang": "auto", "target_lang": "ZH-HANS"},
        read=lambda answer: answer["translations"][0]["text"],
        content_type="application/x-www-form-urlencoded; charset=utf-8",
        headers={"authorization": "DeepL-Auth-Key {key}"},
        is_older=True,
    ),
    "SubtitleEdit": Replay(
        path="/translate",
        body={"q": "hello", "source": "en", "target": "zh"},
        read=lambda answer: answer["translatedText"],
        sends_key=False,
    ),
}


@pytest.fixture
def server() -> StandIn:
    return StandIn(sources=("en", "zh"), targets=("en", "zh"), detected={"hello": "en", "cat": "en"})


async def sent(gateway: RunningGateway, replay: Replay, *, key: str = "", **changes: Any) -> Answer:
    headers: dict[str, Any] = {name: value.format(key=key) for name, value in replay.headers.items()}
    path = replay.path.format(key=key)
    if replay.body is None:
        return await gateway.get(path, **headers)
    body = replay.body
    if isinstance(body, dict):
        body = {name: key if value == "{key}" else value for name, value in (body | changes).items()}
    is_form = replay.content_type.startswith(FORM)
    data = (urlencode(body, doseq=True) if is_form else json.dumps(body, ensure_ascii=False)).encode()
    return await gateway.post(path, data=data, content_type=replay.content_type, **headers)


@pytest.mark.parametrize("name", REPLAYS)
async def test_tools_find_translations_where_they_look_for_them(name: str, gateway: RunningGateway) -> None:
    answer = await sent(gateway, REPLAYS[name])
    assert (answer.status, REPLAYS[name].read(answer.json)) == (200, REPLAYS[name].expected)


@pytest.mark.parametrize("name", [name for name, each in REPLAYS.items() if each.sends_key])
async def test_keys_reach_the_server_from_where_tools_put_them(name: str, guarded: RunningGateway) -> None:
    replay = REPLAYS[name]
    right = await sent(guarded, replay, key=KEY)
    assert (right.status, replay.read(right.json)) == (200, replay.expected)
    for key in ("", "xz_wrong"):
        assert (await sent(guarded, replay, key=key)).status == (403 if replay.is_older else 401)


DEEPLX, IMMERSIVE, MTRANSERVER = "read-frog", "immersive-translate", "zotero-pdf-translate"


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (DEEPLX, {"source_lang": "XX"}, "XX"),
        (DEEPLX, {"text": ""}, "text: must be given"),
        (DEEPLX, {"text": ["a"]}, "text: must be a string"),
        (DEEPLX, {"target_lang": None}, "target_lang: must be given"),
        (DEEPLX, {"tag_handling": "md"}, 'tag_handling: must be "html" or "xml"'),
        (IMMERSIVE, {"text_list": []}, "text_list: must be given"),
        (IMMERSIVE, {"text_list": ["a", 1]}, "text_list[1]: must be a string"),
        (IMMERSIVE, {"text_list": ["a"] * 3000}, "text_list: must be at most"),
        (MTRANSERVER, {"to": ""}, "to: must be given"),
        (MTRANSERVER, {"text": None}, "text: must be given"),
        (MTRANSERVER, {"html": "maybe"}, "html: must be true or false"),
    ],
)
async def test_what_cannot_be_done_is_refused_by_name(
    name: str, change: dict[str, Any], words: str, gateway: RunningGateway
) -> None:
    answer = await sent(gateway, REPLAYS[name], **change)
    assert answer.status == 400
    said = answer.json.get("message") or answer.json.get("error")
    assert words in said
    assert answer.json.get("code", 400) == 400


async def test_placeholders_of_immersive_translate_are_tags_and_the_rest_is_text(
    gateway: RunningGateway, server: StandIn
) -> None:
    server.phrases = [{"en": "hello", "zh": "你好"}]
    texts = ["<b0></b0> hello <b1>AT&T < you</b1>", "hello"]
    answer = await sent(gateway, REPLAYS[IMMERSIVE], text_list=texts, source_lang="en")
    asked = server.asked[-1]
    assert list(asked.contents) == ["<b0></b0> hello <b1>AT&amp;T &lt; you</b1>", "hello"]
    assert asked.settings.content_format == pb.CONTENT_FORMAT_HTML
    assert [each["text"] for each in answer.json["translations"]] == ["<b0></b0> 你好 <b1>AT&T < you</b1>", "你好"]


async def test_microsoft_translates_each_text_into_each_language(gateway: RunningGateway, server: StandIn) -> None:
    server.phrases = [{"en": "hello", "zh": "你好"}]
    path = "/translate?api-version=3.0&to=zh-Hans&to=en&textType=html"
    answer = await gateway.post(path, json=[{"Text": "hello"}])
    (one,) = answer.json
    assert one["detectedLanguage"] == {"language": "en", "score": pytest.approx(0.9)}
    assert one["translations"] == [{"text": "你好", "to": "zh-Hans"}, {"text": "hello", "to": "en"}]
    assert server.asked[-1].settings.content_format == pb.CONTENT_FORMAT_HTML


@pytest.mark.parametrize(
    ("query", "body", "words"),
    [
        ("api-version=3.0&from=xx&to=en", [{"Text": "hello"}], "xx"),
        ("api-version=2.0&to=en", [{"Text": "hello"}], "api-version: must be 3.0"),
        ("api-version=3.0", [{"Text": "hello"}], "to: must be given"),
        ("api-version=3.0&to=en", {"Text": "hello"}, "Text"),
        ("api-version=3.0&to=en", [{"Txt": "hello"}], "body[0]: must be an object with a string, Text"),
        ("api-version=3.0&to=en", ["hello"], "body[0]: must be an object with a string, Text"),
        ("api-version=3.0&to=en", [], "body: must be given"),
        ("api-version=3.0&to=en&to=zh", [{"Text": "a"}] * 600, "texts times languages"),
        ("api-version=3.0&to=en&profanityAction=Deleted", [{"Text": "a"}], "profanityAction: is supported only as"),
        ("api-version=3.0&to=en&toScript=Latn", [{"Text": "a"}], "toScript: is supported by no model here"),
        ("api-version=3.0&to=en&category=medicine", [{"Text": "a"}], "medicine"),
    ],
)
async def test_microsoft_refuses_by_name(query: str, body: Any, words: str, gateway: RunningGateway) -> None:
    answer = await gateway.post(f"/translate?{query}", json=body)
    assert (answer.status, answer.json["error"]["code"]) == (400, 400_000)
    assert words in answer.json["error"]["message"]


async def test_the_official_client_of_microsoft_works(guarded: RunningGateway, server: StandIn) -> None:
    text = pytest.importorskip("azure.ai.translation.text", reason="azure-ai-translation-text is not installed")
    core = pytest.importorskip("azure.core.exceptions")
    credential = pytest.importorskip("azure.core.credentials").AzureKeyCredential(KEY)
    client = text.TextTranslationClient(endpoint=guarded.url, credential=credential, region="any")
    (made,) = await asyncio.to_thread(client.translate, body=["hello"], to_language=["zh"])
    assert (made.translations[0].text, made.detected_language.language) == ("HELLO", "en")
    with pytest.raises(core.HttpResponseError, match="xx"):
        await asyncio.to_thread(client.translate, body=["hello"], to_language=["xx"])
    server.needs_key = False
    listed = await asyncio.to_thread(client.get_supported_languages, scope="translation")
    assert listed.translation["en"].name == "English"


async def test_microsoft_detects_languages(gateway: RunningGateway) -> None:
    answer = await gateway.post("/detect?api-version=3.0", json=[{"Text": "hello"}])
    (found,) = answer.json
    assert (found["language"], found["isTranslationSupported"]) == ("en", True)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("q=hello&langpair=en|xx", "xx"),
        ("q=hello&langpair=en", "langpair: must be two codes"),
        ("langpair=en|zh", "q: must be given"),
    ],
)
async def test_apertium_refuses_by_name(query: str, words: str, gateway: RunningGateway) -> None:
    answer = await gateway.get(f"/translate?{query}")
    assert (answer.status, answer.json["status"], answer.json["code"]) == (400, "error", 400)
    assert words in answer.json["explanation"]
