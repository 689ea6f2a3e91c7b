"""Requests as thirty clients send them: each gets its translation where it looks for it, and of its text alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest
from gateways import RunningGateway, running_gateway
from stand_in_server import KEY, StandIn, standing_in

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
ENGINE = "You are a professional, authentic machine translation engine."
ENGINE_ZH = "你是一个专业的翻译引擎，只输出译文。"


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request, and where its client looks for the translation."""

    path: str
    body: Any = None
    kind: str = JSON
    """Content type; a body that is no text is sent as JSON."""
    read: Callable[[Any], Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    to: str = "zh"
    """Language into which hello or 猫 is translated."""


def chat(prompt: str, *system: str, model: str = "auto-zh", to: str = "zh", **more: Any) -> Request:
    messages = [*({"role": "system", "content": each} for each in system), {"role": "user", "content": prompt}]
    body = {"model": model, "messages": messages, **more}
    return Request(path=CHAT, body=body, read=lambda got: got["choices"][0]["message"]["content"], to=to)


def responded(given: Any, **more: Any) -> Request:
    body = {"model": "en-zh", "input": given, **more}
    return Request(path=RESPONSES, body=body, read=lambda got: got["output"][0]["content"][0]["text"])


def deepl(body: Any, kind: str = FORM, path: str = "/v2/translate") -> Request:
    headers = {"authorization": f"DeepL-Auth-Key {KEY}"}
    return Request(path=path, body=body, kind=kind, read=lambda got: got["translations"][0]["text"], headers=headers)


REQUESTS = {
    "curl, LibreTranslate, raw UTF-8 in a form": Request(
        path="/translate", body="q=猫&source=zh&target=en", kind=FORM, read=lambda got: got["translatedText"], to="en"
    ),
    "LibreTranslate, GET": Request(
        path=f"/translate?q={quote('猫')}&source=auto&target=en", read=lambda got: got["translatedText"], to="en"
    ),
    "LibreTranslate, JSON without a content type": Request(
        path="/translate",
        body='{"q": "hello", "source": "en", "target": "zh", "alternatives": 0, "client": "x"}',
        kind=FORM,
        read=lambda got: got["translatedText"],
    ),
    "LibreTranslate, with a byte order mark": Request(
        path="/translate",
        body='\ufeff{"q": "hello", "source": "en", "target": "zh"}',
        read=lambda got: got["translatedText"],
    ),
    "DeepL with a context": deepl("text=hello&target_lang=ZH&context=greetings&model_type=quality_optimized"),
    "DeepL with a formality": deepl({"text": ["hello"], "target_lang": "ZH", "formality": "less"}, JSON),
    "DeepL, GET": deepl(None, path="/v2/translate?text=hello&target_lang=ZH"),
    "DeepL with a new option": deepl({"text": ["hello"], "target_lang": "ZH", "show_something": True}, JSON),
    "hcfy": Request(
        path="/hcfy",
        body={"name": "x", "text": "hello", "destination": ["英语", "中文(简体)"], "source": "英语"},
        read=lambda got: got["result"][0],
    ),
    "Apertium": Request(
        path="/translate?q=hello&langpair=en|zh_CN&prefs=x", read=lambda got: got["responseData"]["translatedText"]
    ),
    "Microsoft with a token": Request(
        path="/translate?api-version=3.0&to=zh-Hans&includeAlignment=false",
        body=[{"Text": "hello"}],
        read=lambda got: got[0]["translations"][0]["text"],
        headers={"authorization": f"Bearer {KEY}"},
    ),
    "Google v2, GET": Request(
        path=f"/language/translate/v2?q=hello&target=zh-CN&key={KEY}&format=text&alt=json",
        read=lambda got: got["data"]["translations"][0]["translatedText"],
    ),
    "Google v3": Request(
        path="/v3/projects/p/locations/global:translateText",
        body={"contents": ["hello"], "targetLanguageCode": "zh", "mimeType": "text/plain"},
        read=lambda got: got["translations"][0]["translatedText"],
    ),
    "Google's page, lists": Request(
        path="/translate_a/single?client=gtx&sl=auto&tl=zh-CN&dt=t&dt=bd&q=hello",
        read=lambda got: "".join(each[0] for each in got[0]),
    ),
    "Google's page, an object": Request(
        path="/translate_a/single?client=gtx&sl=en&tl=zh-CN&dt=t&dj=1",
        body="q=hello",
        kind=FORM,
        read=lambda got: "".join(each["trans"] for each in got["sentences"]),
    ),
    "Google's page, several": Request(
        path="/translate_a/t?client=gtx&sl=auto&tl=zh-CN", body="q=hello", kind=FORM, read=lambda got: got[0][0]
    ),
    "OpenAI, a system message beside a pair": chat("hello", "You are a helpful assistant.", model="en-zh", to="zh"),
    "OpenAI, fields of a new version": chat("hello", verbosity="low", service_tier="auto", tools=[], stop=None),
    "openai-translator": chat('translate from English to 简体中文:\n\n"hello" =>', ENGINE, model="tiny"),
    "Bob": chat("translate from Chinese to English:\n\n猫", "You translate text.", model="tiny", to="en"),
    "Pot": chat('Translate into Chinese:\n"""\nhello\n"""', ENGINE),
    "pdf2zh": chat(
        f"{ENGINE} Only output the translated text.\n\nTranslate the following markdown source text to zh. Keep the "
        "formula notation {v*} unchanged. Output translation directly.\nSource Text: hello\n\nTranslated Text:",
        model="tiny",
    ),
    "kiss-translator, OpenAI": chat(
        "Translate the following source text from English to Chinese. Output translation directly without any "
        "additional text.\n\nSource Text: hello\n\nTranslated Text:",
        ENGINE,
        model="tiny",
    ),
    "read-frog, OpenAI": chat(
        "Treat input as plain text input and translate it into Simplified Chinese, output translation ONLY. NO "
        "explanations. NO notes. Input:\nhello"
    ),
    "a model for translation, English": chat(
        "Translate the following segment into Chinese, without additional explanation.\n\nhello", model="tiny"
    ),
    "a model for translation, Chinese": chat("把下面的文本翻译成英语，不要额外解释。\n\n猫", model="tiny", to="en"),
    "a Chinese prompt on one line": chat("翻译成英文：猫", ENGINE_ZH, model="auto-en", to="en"),
    "a prompt without a language": chat("请翻译：hello", ENGINE_ZH),
    "a prompt that runs on": chat("Translate to English 猫", model="auto-en", to="en"),
    "a Chinese prompt that runs on": chat("翻译成中文 hello", model="tiny"),
    "a Chinese system message": chat("猫", "你是翻译助手，请把用户的输入翻译成英文。", model="tiny", to="en"),
    "OpenAI's responses": responded("hello"),
    "OpenAI's responses, parts": responded(
        [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}], instructions="Be brief.", store=False
    ),
    "Open Inference Protocol": Request(
        path="/v2/models/tiny/infer",
        body={
            "inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["hello"]}],
            "parameters": {"target_language_code": "zh"},
        },
        read=lambda got: got["outputs"][0]["data"][0],
    ),
    "the gateway's own": Request(
        path="/v1/translate",
        body={"texts": ["hello"], "target_language": "zh"},
        read=lambda got: got["translations"][0]["text"],
    ),
}


@pytest.fixture
def server() -> StandIn:
    return StandIn(
        sources=("en", "zh"),
        targets=("en", "zh"),
        detected={"hello": "en", "猫": "zh"},
        phrases=[{"en": "hello", "zh": "你好"}, {"en": "cat", "zh": "猫"}],
    )


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_client_gets_the_translation_of_its_text(name: str, gateway: RunningGateway, server: StandIn) -> None:
    request = REQUESTS[name]
    headers: dict[str, Any] = dict(request.headers)
    if request.body is None:
        answer = await gateway.get(request.path, **headers)
    else:
        data = (request.body if isinstance(request.body, str) else json.dumps(request.body)).encode()
        answer = await gateway.post(request.path, data=data, content_type=request.kind, **headers)
    assert answer.status == 200, answer.body
    text, expected = ("hello", "你好") if request.to == "zh" else ("猫", "cat")
    assert request.read(answer.json) == expected
    assert list(server.asked[-1].contents) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "翻译：王小明",
        "Translate into Chinese",
        "Translate this into plain words: they lie.",
        "Translated into figures:\n5",
        "把猫放下。",
        "他把这本书译成了英文，ABC 出版社出版。",
        "As a translator, he went to English lessons.\n\nThen home.",
        "The committee translated the Bible into Chinese.\n\nIt took years.",
        "作为翻译，他会说英文。\n\n他很忙。",
        "You are right. He went to China.\n\nThe end.",
    ],
)
async def test_a_text_about_translations_is_translated_whole(
    text: str, gateway: RunningGateway, server: StandIn
) -> None:
    body = {"model": "en-zh", "messages": [{"role": "user", "content": text}]}
    assert (await gateway.post(CHAT, json=body)).status == 200
    assert list(server.asked[-1].contents) == [text]


async def test_a_response_grows_in_events(gateway: RunningGateway) -> None:
    openai = pytest.importorskip("openai", reason="openai is not installed")
    async with openai.AsyncOpenAI(api_key="any", base_url=f"{gateway.url}/v1", max_retries=0) as client:
        whole = await client.responses.create(model="en-zh", input="One. Two.")
        assert whole.output_text == "ONE. TWO."
        async with client.responses.stream(model="en-zh", input="One. Two.") as stream:
            deltas = [event.delta async for event in stream if event.type == "response.output_text.delta"]
            assert (await stream.get_final_response()).output_text == "ONE. TWO."
        assert (len(deltas), "".join(deltas)) == (2, "ONE. TWO.")
        with pytest.raises(openai.BadRequestError, match="previous_response_id"):
            await client.responses.create(model="en-zh", input="a", previous_response_id="resp_1")


async def test_hcfys_second_language_is_for_texts_in_the_first(gateway: RunningGateway) -> None:
    answer = await gateway.post("/hcfy", json={"text": "猫\n猫", "destination": ["中文(简体)", "英语"]})
    assert answer.json == {"text": "猫\n猫", "from": "中文(简体)", "to": "英语", "result": ["cat", "cat"]}


async def test_the_key_is_the_token_that_microsofts_clients_ask_for(server: StandIn) -> None:
    server.needs_key = True
    async with standing_in(server) as address, running_gateway(address, anonymous=False) as guarded:
        path = "/sts/v1.0/issueToken"
        given = await guarded.post(path, data=b"", ocp_apim_subscription_key=KEY)
        assert (given.status, given.body.decode()) == (200, KEY)
        assert (await guarded.post(path, data=b"")).status == 401
        assert (await guarded.post(path, data=b"", ocp_apim_subscription_key="xz_wrong")).status == 401


@pytest.mark.parametrize(
    ("path", "status", "named"),
    [
        ("/v1/translate", 401, "authorization: Bearer KEY"),
        ("/v2/translate", 403, "authorization: DeepL-Auth-Key KEY"),
        ("/translate", 403, "the parameter api_key"),
        ("/translate?api-version=3.0", 401, "ocp-apim-subscription-key"),
        ("/translate?text=a", 401, "?token=KEY"),
        ("/translate?langpair=a", 401, "the parameter key"),
        ("/language/translate/v2", 401, "x-goog-api-key"),
        ("/v3/projects/p:translateText", 401, "x-goog-api-key"),
        (CHAT, 401, "authorization: Bearer KEY"),
    ],
)
async def test_who_has_no_key_is_told_where_it_goes(server: StandIn, path: str, status: int, named: str) -> None:
    async with standing_in(server) as address, running_gateway(address, anonymous=False) as guarded:
        answer = await guarded.post(path, data=b"")
        assert (answer.status, named in answer.body.decode()) == (status, True)
        assert answer.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)


@pytest.mark.parametrize("path", ["/nothing", "/v1/embeddings", "/page/none.js", "/v1/translate/x"])
async def test_an_unknown_address_is_answered_in_json(gateway: RunningGateway, path: str) -> None:
    for answer in (await gateway.get(path), await gateway.post(path, json={})):
        assert (answer.status, answer.json["status"]) == (404, 404)
        assert answer.headers["content-type"] == "application/problem+json"
    assert (await gateway.post("/", data=b"")).json["status"] == 405


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
async def test_a_request_for_another_protocol_is_answered_in_this_one(gateway: RunningGateway, protocol: bytes) -> None:
    asked = {"q": "猫", "source": "zh", "target": "en"}
    plain = await gateway.post("/translate", json=asked)
    body = json.dumps(asked).encode()
    head = b"POST /translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    head += b"connection: Upgrade, HTTP2-Settings\r\nupgrade: %b\r\nhttp2-settings: AAMAAABk\r\n" % protocol
    framed = (
        head + b"content-length: %d\r\n\r\n%b" % (len(body), body),
        head + b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body),
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    # In one piece, in many, and several at once.
    writer.writelines(framed)
    for byte in framed[0]:
        writer.write(bytes([byte]))
        await writer.drain()
    async with asyncio.timeout(30):
        for _ in range(3):
            answer = await reader.readuntil(b"\r\n\r\n")
            size = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert json.loads(await reader.readexactly(size)) == plain.json
    writer.close()
    await writer.wait_closed()
