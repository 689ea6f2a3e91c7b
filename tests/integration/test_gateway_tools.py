"""The small APIs of translation tools against a gateway and a server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gateways import Answer, RunningGateway

from xuanzang.client import AsyncTranslationClient

TEXT = "我有一只猫。"
# For each API: its address, a body whose target is to be put in, and how a program reads the answer.
CALLS: dict[str, tuple[str, Any, Any]] = {
    "deeplx": ("/translate", {"text": TEXT, "target_lang": "{}"}, lambda a: a["data"]),
    "immersive_translate": (
        "/imme",
        {"text_list": [TEXT], "source_lang": "auto", "target_lang": "{}"},
        lambda a: a["translations"][0]["text"],
    ),
    "mtranserver": ("/translate", {"text": TEXT, "from": "zh-Hans", "to": "{}"}, lambda a: a["result"]),
    "kiss_translator": ("/kiss", {"text": TEXT, "from": "auto", "to": "{}"}, lambda a: a["text"]),
    "microsoft": ("/translate?api-version=3.0&to={}", [{"Text": TEXT}], lambda a: a[0]["translations"][0]["text"]),
    "openai": (
        "/v1/chat/completions",
        {
            "model": "tiny",
            "messages": [{"role": "user", "content": TEXT}],
            "translation_options": {"target_lang": "{}"},
        },
        lambda a: a["choices"][0]["message"]["content"],
    ),
}


async def called(gateway: RunningGateway, api: str, target: str) -> Answer:
    path, body, _ = CALLS[api]
    return await gateway.post(path.format(target), json=json.loads(json.dumps(body).replace("{}", target)))


@pytest.mark.parametrize("api", CALLS)
async def test_tools_get_what_the_server_translates(
    api: str, gateway: RunningGateway, client: AsyncTranslationClient
) -> None:
    expected = (await client.translate_one(TEXT, source_language="zh", target_language="en")).text
    answer = await called(gateway, api, "en")
    assert (answer.status, CALLS[api][2](answer.json)) == (200, expected)
    omegat = await gateway.get("/translate?q=%E6%88%91%E6%9C%89%E4%B8%80%E5%8F%AA%E7%8C%AB%E3%80%82&langpair=zh_CN|en")
    assert omegat.json["responseData"]["translatedText"] == expected


async def test_parts_of_a_stream_are_the_translation(gateway: RunningGateway) -> None:
    asked = {"model": "auto-en", "messages": [{"role": "user", "content": f"{TEXT}他们有三只狗。"}]}
    whole = await gateway.post("/v1/chat/completions", json=asked)
    stream = await gateway.post("/v1/chat/completions", json=asked | {"stream": True})
    events = [event.removeprefix("data: ") for event in stream.body.decode().split("\n\n") if event]
    deltas = [json.loads(event)["choices"][0]["delta"].get("content", "") for event in events[:-1]]
    assert events[-1] == "[DONE]"
    assert "".join(deltas) == whole.json["choices"][0]["message"]["content"]
