"""Requests as some fifty tools send them, and where each looks for its translation, of its text alone."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import pytest
from gateways import Answer, RunningGateway
from stand_in_server import KEY, StandIn

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
CHAT = "/v1/chat/completions"
ENGINE = "You are a professional, authentic machine translation engine."
ENGINE_ZH = "你是一个专业的翻译引擎，只输出译文。"
MICROSOFT_KEY = {"Ocp-Apim-Subscription-Key": "{key}", "Ocp-Apim-Subscription-Region": "any"}
MICROSOFT = "/translate?api-version=3.0&to=zh-Hans"


class Sent(NamedTuple):
    """A request; {key} stands for the key that the tool's user enters, which is empty without one."""

    path: str
    body: Any
    """None: GET; what is no text is sent as JSON, or as the fields of a form."""
    at: str
    """Where the tool looks in the answer: paths of names and indices; * is every element."""
    expected: Any = "你好"
    """What stands there; a tuple for several paths."""
    kind: str = JSON
    headers: dict[str, str] | None = None
    """None: a bearer token, unless the key stands in the address or in the body."""
    texts: tuple[str, ...] | None = ("hello",)
    """The texts that the server is asked to translate; None: to detect."""
    without_key: int = 401
    """Status if the server asks for a key, and gets none."""


def chat(prompt: str, *system: str, model: str = "auto-zh", to: str = "zh", **more: Any) -> Sent:
    messages = [*({"role": "system", "content": each} for each in system), {"role": "user", "content": prompt}]
    text, expected = ("hello", "你好") if to == "zh" else ("猫", "cat")
    body = {"model": model, "messages": messages, **more}
    return Sent(CHAT, body, "choices.0.message.content", expected, texts=(text,))


def responded(given: Any, **more: Any) -> Sent:
    body = {"model": "en-zh", "input": given, **more}
    return Sent("/v1/responses", body, "output.0.content.0.text")


def libre(path: str, body: Any, at: str = "translatedText", expected: Any = "你好", **more: Any) -> Sent:
    return Sent(path, body, at, expected, without_key=403, **more)


def deepl(path: str, body: Any, kind: str = FORM) -> Sent:
    headers = {"authorization": "DeepL-Auth-Key {key}"}
    return Sent(path, body, "translations.0.text", kind=kind, headers=headers, without_key=403)


FROM_EN = {"q": "hello", "source": "en", "target": "zh", "api_key": "{key}"}
DEEPLX = {"text": "hello", "source_lang": "EN", "target_lang": "ZH"}
BOTH, BOTH_IN_CHINESE = ["hello", "cat"], ["你好", "猫"]
TENSOR = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["hello"]}

SENT = {
    "curl, LibreTranslate, raw UTF-8 in a form": libre(
        "/translate", "q=猫&source=zh&target=en&api_key={key}", expected="cat", kind=FORM, texts=("猫",)
    ),
    "LibreTranslate, GET": libre(
        f"/translate?q={quote('猫')}&source=auto&target=en&api_key={{key}}", None, expected="cat", texts=("猫",)
    ),
    "LibreTranslate, JSON without a content type": libre(
        "/translate", json.dumps(FROM_EN | {"alternatives": 0, "client": "x"}), kind=FORM
    ),
    "LibreTranslate, with a byte order mark": libre("/translate", "\ufeff" + json.dumps(FROM_EN)),
    "Weblate": libre("/translate", FROM_EN, kind=FORM),
    "Mastodon": libre(
        "/translate",
        FROM_EN | {"q": BOTH, "source": "auto", "format": "html"},
        "translatedText detectedLanguage.*.language",
        (BOTH_IN_CHINESE, ["en", "en"]),
        texts=("hello", "cat"),
    ),
    "Discourse, detection": libre(
        "/detect", {"q": "hello", "api_key": "{key}"}, "0.language", "en", kind=FORM, texts=None
    ),
    "SubtitleEdit": libre("/translate", {"q": "hello", "source": "en", "target": "zh"}),
    "DeepL with a context": deepl(
        "/v2/translate", "text=hello&target_lang=ZH&context=greetings&model_type=quality_optimized"
    ),
    "DeepL, GET": deepl("/v2/translate?text=hello&target_lang=ZH", None),
    "Easydict": deepl("/v2/translate", DEEPLX | {"source_lang": "auto"}, f"{FORM}; charset=utf-8"),
    "read-frog": Sent("/translate?token={key}", DEEPLX | {"source_lang": "auto"}, "data"),
    "Bob, DeepLX": Sent("/translate?token={key}", DEEPLX, "data alternatives", ("你好", [])),
    "kiss-translator, DeepLX": Sent("/translate", DEEPLX, "data source_lang", ("你好", "EN")),
    "DeepLX from a page of a browser": Sent(
        "/translate?token={key}", DEEPLX, "code data", (200, "你好"), kind="text/plain;charset=UTF-8"
    ),
    "immersive-translate": Sent(
        "/imme?token={key}",
        {"source_lang": "auto", "target_lang": "zh-CN", "text_list": BOTH},
        "translations.*.text translations.*.detected_source_lang",
        (BOTH_IN_CHINESE, ["en", "en"]),
        texts=("hello", "cat"),
    ),
    "immersive-translate, at the address of others": Sent(
        "/translate?token={key}",
        {"source_lang": "en", "target_lang": "zh-CN", "text_list": ["hello"]},
        "translations.0.text",
    ),
    "kiss-translator": Sent("/kiss", {"text": "hello", "from": "auto", "to": "zh-CN"}, "text src", ("你好", "en")),
    "kiss-translator, several texts": Sent(
        "/kiss",
        {"texts": BOTH, "from": "en", "to": "zh-CN"},
        "translations.*.text translations.*.src",
        (BOTH_IN_CHINESE, ["en", "en"]),
        texts=("hello", "cat"),
    ),
    "kiss-translator, with a header of its own": Sent(
        "/kiss", {"text": "hello", "from": "en", "to": "zh-CN"}, "text", headers={"KEY": "{key}"}
    ),
    "zotero-pdf-translate": Sent(
        "/translate", {"text": "hello", "from": "en", "to": "zh-Hans"}, "result", headers={"authorization": "{key}"}
    ),
    "STranslate, MTranServer": Sent(
        "/translate?token={key}",
        {"from": "en", "to": "zh", "text": "hello"},
        "result",
        kind="application/json; charset=utf-8",
    ),
    "MTranServer's batches": Sent(
        "/translate/batch",
        {"from": "en", "to": "zh-Hans", "texts": BOTH, "html": False},
        "results",
        BOTH_IN_CHINESE,
        texts=("hello", "cat"),
    ),
    "hcfy": Sent(
        "/hcfy",
        {"name": "x", "text": "hello", "destination": ["英语", "中文(简体)"], "source": "英语"},
        "result.0",
    ),
    "STranslate, Microsoft": Sent(
        MICROSOFT,
        [{"text": "hello"}],
        "0.translations.0.text 0.detectedLanguage.language",
        ("你好", "en"),
        headers=MICROSOFT_KEY,
    ),
    "kiss-translator, Microsoft": Sent(
        f"{MICROSOFT}&from=en",
        [{"Text": "hello"}, {"Text": "cat"}],
        "*.translations.0.text",
        BOTH_IN_CHINESE,
        headers=MICROSOFT_KEY,
        texts=("hello", "cat"),
    ),
    "Microsoft with a token": Sent(f"{MICROSOFT}&includeAlignment=false", [{"Text": "hello"}], "0.translations.0.text"),
    "OmegaT": Sent(
        "/translate?q=hello+cat&markUnknown=no&langpair=en|zh_CN&key={key}&prefs=x",
        None,
        "responseStatus responseData.translatedText",
        (200, "你好 猫"),
        texts=("hello cat",),
    ),
    "Google v2, GET": Sent(
        "/language/translate/v2?q=hello&target=zh-CN&key={key}&format=text&alt=json",
        None,
        "data.translations.0.translatedText",
    ),
    "Google v3": Sent(
        "/v3/projects/p/locations/global:translateText",
        {"contents": ["hello"], "targetLanguageCode": "zh", "mimeType": "text/plain"},
        "translations.0.translatedText",
    ),
    "Google's page, lists": Sent("/translate_a/single?client=gtx&sl=auto&tl=zh-CN&dt=t&dt=bd&q=hello", None, "0.0.0"),
    "Google's page, an object": Sent(
        "/translate_a/single?client=gtx&sl=en&tl=zh-CN&dt=t&dj=1",
        "q=hello",
        "sentences.0.trans",
        kind=FORM,
    ),
    "Google's page, several": Sent("/translate_a/t?client=gtx&sl=auto&tl=zh-CN", "q=hello", "0.0", kind=FORM),
    "OpenAI, a system message beside a pair": chat("hello", "You are a helpful assistant.", model="en-zh"),
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
    "Open Inference Protocol": Sent(
        "/v2/models/tiny/infer",
        {"inputs": [TENSOR], "parameters": {"target_language_code": "zh"}},
        "outputs.0.data.0",
    ),
    "the gateway's own": Sent("/v1/translate", {"texts": ["hello"], "target_language": "zh"}, "translations.0.text"),
}
KEYLESS = {"SubtitleEdit"}
"""Its JSON with a key lacks a comma."""


@pytest.fixture(scope="module")
def stand_in() -> StandIn:
    phrases = [{"en": "hello", "zh": "你好"}, {"en": "cat", "zh": "猫"}]
    detected = {"hello": "en", "cat": "en", "猫": "zh"}
    return StandIn(sources=("en", "zh"), targets=("en", "zh"), detected=detected, phrases=phrases)


def found(answer: Any, path: str) -> Any:
    """Return what stands at a path in an answer."""
    step, _, rest = path.partition(".")
    if step == "*":
        return [found(each, rest) for each in answer]
    value = answer[int(step)] if step.isdigit() else answer[step]
    return found(value, rest) if rest else value


def keyed(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return {name: keyed(each, key) for name, each in value.items()}
    return value.replace("{key}", key) if isinstance(value, str) else value


async def answer_to(sent: Sent, gateway: RunningGateway, key: str = "") -> Answer:
    headers = sent.headers or ({} if "{key}" in f"{sent.path} {sent.body}" else {"authorization": "Bearer {key}"})
    path, body, headers = keyed(sent.path, key), keyed(sent.body, key), keyed(headers, key)
    if body is None:
        return await gateway.get(path, **headers)
    if not isinstance(body, str):
        body = urlencode(body, doseq=True) if sent.kind.startswith(FORM) else json.dumps(body, ensure_ascii=False)
    return await gateway.post(path, data=body.encode(), content_type=sent.kind, **headers)


@pytest.mark.parametrize("name", SENT)
async def test_tools_find_translations_where_they_look_for_them(
    name: str, gateway: RunningGateway, server: StandIn
) -> None:
    sent = SENT[name]
    answer = await answer_to(sent, gateway)
    assert answer.status == 200, answer.body
    values = tuple(found(answer.json, path) for path in sent.at.split())
    assert values == (sent.expected if isinstance(sent.expected, tuple) else (sent.expected,))
    assert [tuple(each.contents) for each in server.asked[-1:]] == ([sent.texts] if sent.texts else [])


@pytest.mark.parametrize("name", [name for name in SENT if name not in KEYLESS])
async def test_keys_reach_the_server_from_where_tools_put_them(name: str, guarded: RunningGateway) -> None:
    assert (await answer_to(SENT[name], guarded, KEY)).status == 200
    for key in ("", "xz_wrong"):
        assert (await answer_to(SENT[name], guarded, key)).status == SENT[name].without_key


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
    async with openai.AsyncOpenAI(api_key="any", base_url=f"{gateway.url}/v1", max_retries=0, timeout=600) as client:
        whole = await client.responses.create(model="en-zh", input="One. Two.")
        assert whole.output_text == "ONE. TWO."
        async with client.responses.stream(model="en-zh", input="One. Two.") as stream:
            deltas = [event.delta async for event in stream if event.type == "response.output_text.delta"]
            assert (await stream.get_final_response()).output_text == "ONE. TWO."
        assert (len(deltas), "".join(deltas)) == (2, "ONE. TWO.")
        with pytest.raises(openai.BadRequestError, match="previous_response_id"):
            await client.responses.create(model="en-zh", input="a", previous_response_id="resp_1")


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
async def test_who_has_no_key_is_told_where_it_goes(
    guarded: RunningGateway, path: str, status: int, named: str
) -> None:
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
