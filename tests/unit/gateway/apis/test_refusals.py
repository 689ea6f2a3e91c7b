"""Each API refuses in its own form, by its own names, what it does not have, what is wrong, and what has no effect."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from unittest.mock import ANY

import pytest
from gateways import Answer, RunningGateway
from stand_in_server import StandIn

CHAT, INFER, LIBRE = "/v1/chat/completions", "/v2/models/tiny/infer", "/translate"
GOOGLE, MICROSOFT = "/v3/projects/p/locations/global:translateText", "/translate?api-version=3.0"
TENSOR = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["猫"]}
IN_XML = {"text": ["猫"], "target_lang": "EN", "tag_handling": "xml"}
DICTIONARY = {"source_lang": "zh", "target_lang": "en", "entries": "猫\tcat"}
LIST = {"source_lang": "auto", "target_lang": "en"}
MTRANSERVER = {"text": "猫", "from": "zh", "to": "en"}
DEEPLX = {"text": "猫", "source_lang": "auto", "target_lang": "EN"}
TO_EN = f"{MICROSOFT}&to=en"


def chat(content: Any) -> dict[str, Any]:
    return {"model": "auto-en", "messages": [{"role": "user", "content": content}]}


def inference(**changes: Any) -> dict[str, Any]:
    return {"inputs": [TENSOR | changes]}


@pytest.fixture(scope="module")
def stand_in() -> StandIn:
    return StandIn(sources=("en", "zh"), targets=("en", "zh"), detected={"猫": "zh", "hello": "en"})


async def answer_of(gateway: RunningGateway, path: str, body: Any) -> Answer:
    return await (gateway.get(path) if body is None else gateway.post(path, json=body))


FORMS: list[tuple[str, Any, int, Any]] = [
    ("/v3/projects/any:batchTranslateText", {}, 501, {"error": ANY}),
    ("/language/translate/v2/models", {}, 501, {"error": ANY}),
    ("/translate_a/element.js", {}, 501, {"error": ANY}),
    ("/v2/repository/models/tiny/load", {}, 501, {"error": ANY}),
    ("/v2/repository/models/tiny/unload", {}, 501, {"error": ANY}),
    ("/v2/systemsharedmemory/region/r/register", {}, 501, {"error": ANY}),
    ("/v2/cudasharedmemory/region/r/register", {}, 501, {"error": ANY}),
    ("/v3/style_rules", {}, 404, {"message": ANY}),
    ("/v2/write/rephrase", {}, 404, {"message": ANY}),
    (LIBRE, DEEPLX | {"text": ""}, 400, {"code": 400, "message": "text: must be given"}),
    (LIBRE, MTRANSERVER | {"to": ""}, 400, {"error": "to: must be given"}),
    ("/imme", LIST | {"text_list": []}, 400, {"error": "text_list: must be given"}),
    (
        MICROSOFT,
        [{"Text": "猫"}],
        400,
        {"error": {"code": 400_000, "message": "to: must be given, with at most 1024 texts times languages"}},
    ),
    (
        f"{LIBRE}?langpair=en|zh",
        None,
        400,
        {"status": "error", "code": 400, "message": ANY, "explanation": "q: must be given"},
    ),
]


@pytest.mark.parametrize(("path", "body", "status", "form"), FORMS)
async def test_a_refusal_has_the_form_of_its_api(
    gateway: RunningGateway, path: str, body: Any, status: int, form: Any
) -> None:
    answer = await answer_of(gateway, path, body)
    assert (answer.status, answer.json) == (status, form)


REFUSED: dict[str, list[tuple[Any, str]]] = {
    "/imme": [
        ({"text_list": ["猫"], "target_lang": "qq"}, "target_lang: 'qq' is not supported; served: en"),
        ({"text_list": ["猫"], "source_lang": "qq", "target_lang": "en"}, "source_lang: 'qq' is not supported"),
        (LIST | {"text_list": ["a", 1]}, "text_list[1]: must be a string"),
        (LIST | {"text_list": ["a"] * 3000}, "text_list: must be at most"),
    ],
    "/kiss": [({"text": "a", "texts": ["b"], "from": "auto", "to": "en"}, "texts")],
    LIBRE: [
        ({"text": "猫", "target_lang": "QQ"}, "target_lang: 'QQ' is not supported"),
        ({"text": "猫", "from": "qq", "to": "en"}, "from: 'qq' is not supported; served: en, zh"),
        ({"q": "猫", "langpair": "zh|qq"}, "langpair: 'qq' is not supported"),
        ({"q": "猫", "langpair": "zh"}, "langpair: must be two codes"),
        ({"q": "a", "source": "auto", "target": "en", "alternatives": True}, "alternatives"),
        (DEEPLX | {"source_lang": "XX"}, "XX"),
        (DEEPLX | {"text": ["a"]}, "text: must be a string"),
        (DEEPLX | {"target_lang": None}, "target_lang: must be given"),
        (DEEPLX | {"tag_handling": "md"}, r"tag_handling: must be \"html\" or \"xml\""),
        (MTRANSERVER | {"text": None}, "text: must be given"),
        (MTRANSERVER | {"html": "maybe"}, "html: must be true or false"),
    ],
    f"{LIBRE}?target=de": [({"q": "a", "source": "auto", "target": "en"}, "target")],
    "/detect": [({"q": ["猫", "狗"]}, "q: must be one text, are 2")],
    "/detect?api-version=3.0": [([{"Text": "猫"}, {"Text": " "}], "body[1]: must be a text")],
    f"{MICROSOFT}&to=qq": [([{"Text": "猫"}], "to: 'qq' is not supported")],
    f"{TO_EN}&from=xx": [([{"Text": "hello"}], "xx")],
    "/translate?api-version=2.0&to=en": [([{"Text": "hello"}], "api-version: must be 3.0")],
    TO_EN: [
        ({"Text": "hello"}, "Text"),
        ([{"Txt": "hello"}], "body[0]: must be an object with a string, Text"),
        (["hello"], "body[0]: must be an object with a string, Text"),
        ([], "body: must be given"),
    ],
    f"{TO_EN}&to=zh": [([{"Text": "a"}] * 600, "texts times languages")],
    f"{TO_EN}&profanityAction=Deleted": [([{"Text": "a"}], "profanityAction: is supported only as")],
    f"{TO_EN}&toScript=Latn": [([{"Text": "a"}], "toScript: is supported by no model here")],
    f"{TO_EN}&category=medicine": [([{"Text": "a"}], "medicine")],
    "/language/translate/v2": [
        ({"q": "猫", "target": "qq"}, "target: 'qq' is not supported"),
        ({"q": "a", "target": "en", "model": "none"}, "'none'"),
    ],
    GOOGLE: [
        ({"contents": ["猫"], "targetLanguageCode": "qq"}, "target_language_code: 'qq' is"),
        ({"contents": ["猫"], "model": "a/b/c"}, "MODEL, of at most 512 characters"),
    ],
    "/v1/translate": [
        ({"texts": ["猫"], "target_language": "qq"}, "target_language: 'qq' is not supported"),
        ({"texts": ["猫"]}, "target_language: Field required"),
    ],
    CHAT: [
        (chat([{"type": "image"}]), "messages[0].content[0].type: Input should be 'text'"),
        (chat("Translate the following text to French:\n\na cat"), "'fr' is not supported"),
        (chat("Translate the following text to Klingon:\n\na cat"), "instructions"),
        (chat("Please summarize this text:\n猫"), "instructions"),
        (chat("请总结下面的内容：\n猫"), "instructions"),
    ],
    INFER: [
        (inference(data=[], shape=[0]), "inputs[0].data: must be given"),
        (inference(shapes=[1]), "inputs[0].shapes"),
        (inference(shape=[True]), "inputs[0].shape"),
        (inference() | {"parameter": {"beam_size": 1}}, "parameter:"),
        (inference() | {"model_name": "other"}, "model_name"),
        (inference() | {"outputs": [{"name": "translation", "a": 1}]}, "outputs[0].a"),
        (inference() | {"parameters": {"timeout": "1"}}, "parameters.timeout"),
        (inference() | {"parameters": {"timeout": True}}, "parameters.timeout"),
    ],
    "/v2/translate": [
        (IN_XML | {"ignore_tags": ["a b"]}, "ignore_tags: must be at most 64 names of tags, of letters"),
        ({"text": ["猫"], "target_lang": "EN", "ignore_tags": ["x"]}, "ignore_tags: needs tag_handling"),
    ],
    "/v2/translate?target_lang=DE": [({"text": ["a"], "target_lang": "EN-US"}, "target_lang")],
    "/v3/glossaries": [
        (
            {"name": "n", "dictionaries": [DICTIONARY, {"source_lang": "zh", "target_lang": "en"}]},
            "dictionaries[1].entries: must be given",
        ),
    ],
}


@pytest.mark.parametrize("path", REFUSED)
async def test_a_refusal_names_the_field_as_callers_of_its_api_know_it(gateway: RunningGateway, path: str) -> None:
    for body, words in REFUSED[path]:
        answer = await answer_of(gateway, path, body)
        assert answer.status in (400, 404), words
        assert words in json.dumps(answer.json, ensure_ascii=False)


async def test_google_names_the_model_that_was_used(gateway: RunningGateway) -> None:
    for model in ("nmt", "base", "tiny"):
        answer = await gateway.get(f"/language/translate/v2?q=a&target=en&model={model}")
        assert answer.json["data"]["translations"][0]["model"] == "tiny/1"


async def test_ignored_tags_of_html_are_found_in_capital_letters_too(gateway: RunningGateway, server: StandIn) -> None:
    for form, count in (("html", 2), ("xml", 1)):
        body = {"text": ["<KEEP>a</KEEP><keep>a</keep>"], "target_lang": "EN-US"}
        await gateway.post("/v2/translate", json=body | {"tag_handling": form, "ignore_tags": ["keep"]})
        assert server.asked[-1].contents[0].count('translate="no"') == count


@pytest.mark.parametrize(
    ("method", "path", "allowed", "member"),
    [
        ("PUT", "/translate", "GET, HEAD, POST", "error"),
        ("DELETE", "/v1/translate", "POST", "status"),
        ("GET", "/v1/chat/completions", "POST", "error"),
        ("PATCH", "/language/translate/v2", "GET, HEAD, POST", "error"),
        ("GET", "/v2/models/tiny/infer", "POST", "error"),
        ("PUT", "/v2/usage", "GET, HEAD, POST", "message"),
        ("PUT", "/imme", "POST", "error"),
    ],
)
async def test_a_wrong_method_is_refused_in_the_form_of_the_api(
    gateway: RunningGateway, method: str, path: str, allowed: str, member: str
) -> None:
    answer = await asyncio.to_thread(gateway._send, method, path, None, {})
    assert (answer.status, answer.headers["allow"], member in answer.json) == (405, allowed, True)
