"""Requests whose answer would only look right: what has no effect is refused by name, and counts count everything."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from gateways import RunningGateway
from stand_in_server import StandIn

TENSOR = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]}
CHAT = "/v1/chat/completions"


def chat(text: str) -> dict[str, Any]:
    return {"model": "auto-en", "messages": [{"role": "user", "content": text}]}


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("/v2/translate?target_lang=DE", {"text": ["a"], "target_lang": "EN-US"}, "target_lang"),
        ("/translate?target=de", {"q": "a", "source": "auto", "target": "en"}, "target"),
        ("/translate", {"q": "a", "source": "auto", "target": "en", "alternatives": True}, "alternatives"),
        ("/kiss", {"text": "a", "texts": ["b"], "from": "auto", "to": "en"}, "texts"),
        ("/language/translate/v2", {"q": "a", "target": "en", "model": "none"}, "'none'"),
        ("/v2/models/tiny/infer", {"inputs": [TENSOR], "parameter": {"beam_size": 1}}, "parameter:"),
        ("/v2/models/tiny/infer", {"inputs": [TENSOR], "model_name": "other"}, "model_name"),
        ("/v2/models/tiny/infer", {"inputs": [TENSOR | {"shapes": [1]}]}, "inputs[0].shapes"),
        ("/v2/models/tiny/infer", {"inputs": [TENSOR | {"shape": [True]}]}, "inputs[0].shape"),
        ("/v2/models/tiny/infer", {"inputs": [TENSOR], "outputs": [{"name": "translation", "a": 1}]}, "outputs[0].a"),
        ("/v2/models/tiny/infer", {"inputs": [TENSOR], "parameters": {"timeout": "1"}}, "parameters.timeout"),
        ("/v2/models/tiny/infer", {"inputs": [TENSOR], "parameters": {"timeout": True}}, "parameters.timeout"),
        (CHAT, chat("Translate the following text to French:\n\na cat"), "'fr' is not supported"),
        (CHAT, chat("Translate the following text to Klingon:\n\na cat"), "instructions"),
        (CHAT, chat("Please summarize this text:\n猫"), "instructions"),
        (CHAT, chat("请总结下面的内容：\n猫"), "instructions"),
    ],
)
async def test_what_would_have_no_effect_is_refused_by_name(
    gateway: RunningGateway, server: StandIn, path: str, body: dict[str, Any], named: str
) -> None:
    answer = await gateway.post(path, json=body)
    assert answer.status in (400, 404)
    assert named in answer.body.decode()


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
