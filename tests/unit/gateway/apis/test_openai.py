"""OpenAI's client, unmodified, and requests as Open WebUI, Nextcloud, BabelDOC and users of qwen-mt send them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from gateways import Answer, RunningGateway
from stand_in_server import KEY, StandIn

from xuanzang.translation.v1 import translation_pb2 as pb

NEXTCLOUD_SYSTEM = (
    "You are a translations expert that ONLY outputs a valid JSON with the translated text in the following format: "
    '{ "translation": "<translated text>" } .'
)
TRANSLATED_TEXT = {"translation": {"type": "string", "description": "The translated text"}}
NEXTCLOUD_SCHEMA = {
    "name": "TranslationResponse",
    "description": "A JSON object containing the translated text",
    "strict": True,
    "schema": {
        "type": "object",
        "properties": TRANSLATED_TEXT,
        "required": ["translation"],
        "additionalProperties": False,
    },
}
NEXTCLOUD_FORMAT = {"type": "json_schema", "json_schema": NEXTCLOUD_SCHEMA}
BABELDOC_SYSTEM = "You are a professional,authentic machine translation engine."
BABELDOC_LINE = (
    ";; Treat next line as plain text input and translate it into zh, output translation ONLY. If translation is "
    "unnecessary (e.g. proper nouns, codes, {{1}}, etc. ), return the original text. NO explanations. NO notes. "
    "Input:\n\nhello"
)
BABELDOC_RULES = (
    "You are a professional zh native translator who needs to fluently translate text into zh.\n\n## Rules\n\n"
    "1. Keep the structure exactly unchanged.\n\n## Output\n\n"
)
BABELDOC_PARAGRAPH = (
    f"{BABELDOC_RULES}Output ONLY the translated zh text. No explanations, no backticks, no extra text.\n\n"
    "Now translate the following text:\n\n<style id='1'>hello</style> {v1}"
)


@dataclass(frozen=True, kw_only=True)
class Asking:
    """A gateway, and what a tool that is set up for it sends with each request."""

    gateway: RunningGateway
    headers: dict[str, Any]

    async def completed(self, **fields: Any) -> Answer:
        return await completed(self.gateway, headers=self.headers, **fields)


@pytest.fixture(scope="module")
def stand_in() -> StandIn:
    return StandIn(
        sources=("en", "zh"),
        targets=("en", "zh"),
        detected={"hello": "en", "One. Two.": "en"},
        phrases=[{"en": "hello", "zh": "你好"}],
    )


@pytest.fixture(params=["gateway", "guarded"])
def either(request: pytest.FixtureRequest) -> Asking:
    gateway = request.getfixturevalue(request.param)
    return Asking(gateway=gateway, headers={"authorization": f"Bearer {KEY}"} if request.param == "guarded" else {})


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def system(content: str) -> dict[str, Any]:
    return {"role": "system", "content": content}


async def completed(gateway: RunningGateway, *, headers: dict[str, Any] | None = None, **fields: Any) -> Answer:
    asked = {"model": "auto-zh", "messages": [user("hello")]} | fields
    return await gateway.post("/v1/chat/completions", json=asked, **(headers or {}))


def content_of(answer: Answer) -> str:
    assert answer.status == 200, answer.body
    (choice,) = answer.json["choices"]
    assert (choice["finish_reason"], choice["message"]["role"]) == ("stop", "assistant")
    return str(choice["message"]["content"])


async def test_the_official_client_translates_as_with_qwen_mt(guarded: RunningGateway) -> None:
    openai = pytest.importorskip("openai", reason="openai is not installed")
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{guarded.url}/v1", max_retries=0, timeout=600) as client:
        for source, target in (("auto", "Chinese"), ("English", "Chinese"), ("en", "zh")):
            options = {"translation_options": {"source_lang": source, "target_lang": target}}
            answer = await client.chat.completions.create(model="tiny", messages=[user("hello")], extra_body=options)
            assert answer.choices[0].message.content == "你好"


async def test_the_official_client_streams_lists_and_is_refused(guarded: RunningGateway) -> None:
    openai = pytest.importorskip("openai", reason="openai is not installed")
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{guarded.url}/v1", max_retries=0, timeout=600) as client:
        stream = await client.chat.completions.create(model="en-zh", messages=[user("One. Two.")], stream=True)
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
        assert "".join(pieces) == "ONE. TWO."
        assert len([piece for piece in pieces if piece]) == 2
        ids = [model.id async for model in await client.models.list()]
        assert ids == ["auto-en", "auto-zh", "en-zh", "zh-en"]
        assert (await client.models.retrieve("en-zh")).id == "en-zh"
        with pytest.raises(openai.NotFoundError, match="en-fr"):
            await client.chat.completions.create(model="en-fr", messages=[user("hello")])
        tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
        with pytest.raises(openai.BadRequestError, match="tools"):
            await client.chat.completions.create(model="en-zh", messages=[user("hello")], tools=[tool])
    async with openai.AsyncOpenAI(
        api_key="xz_wrong", base_url=f"{guarded.url}/v1", max_retries=0, timeout=600
    ) as client:
        with pytest.raises(openai.AuthenticationError):
            await client.chat.completions.create(model="en-zh", messages=[user("hello")])


async def test_open_webui_sends_the_whole_conversation(either: Asking) -> None:
    history = [user("hello"), {"role": "assistant", "content": "你好"}, user([{"type": "text", "text": "hello"}])]
    answer = await either.completed(messages=history, stream=True, stream_options={"include_usage": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = answer.body.decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "你好"
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    listed = (await either.gateway.get("/v1/models", **either.headers)).json
    assert [model["id"] for model in listed["data"]] == ["auto-en", "auto-zh", "en-zh", "zh-en"]
    assert [model["name"] for model in listed["models"]] == ["tiny"]


async def test_nextcloud_gets_the_json_that_it_asks_for(either: Asking, server: StandIn) -> None:
    for start, source in (("from English ", "en"), ("", "")):
        messages = [system(NEXTCLOUD_SYSTEM), user(f"Translate the following text {start}to 中文: \n\nhello")]
        answer = await either.completed(
            model="tiny", messages=messages, n=1, stream=False, max_tokens=1000, response_format=NEXTCLOUD_FORMAT
        )
        assert json.loads(content_of(answer)) == {"translation": "你好"}
        asked = server.asked[-1]
        assert (list(asked.contents), asked.settings.source_language_code) == (["hello"], source)


async def test_babeldoc_gets_its_paragraphs_one_by_one(either: Asking, server: StandIn) -> None:
    line = await either.completed(messages=[system(BABELDOC_SYSTEM), user(BABELDOC_LINE)], temperature=0)
    assert content_of(line) == "你好"
    paragraph = await either.completed(messages=[user(BABELDOC_PARAGRAPH)], temperature=0, max_tokens=2048)
    assert content_of(paragraph) == "<style id='1'>你好</style> {v1}"
    kept = {pb.PROTECTED_PATTERN_PLACEHOLDER, pb.PROTECTED_PATTERN_TAG}
    assert kept == set(server.asked[-1].settings.protected_patterns)
    many = f'{BABELDOC_RULES}Return JSON.\n\nHere is the input:\n\n[{{"id": 0, "input": "hello"}}]'
    refused = await either.completed(messages=[user(many)], temperature=0, max_tokens=2048)
    assert (refused.status, refused.json["error"]["param"]) == (400, "messages")


async def test_open_webuis_titles_are_refused_and_not_translated_prompts(either: Asking) -> None:
    prompt = "### Task:\nGenerate a concise, 3-5 word title.\n### Guidelines:\n- Be brief.\n### Chat History:\nhello"
    answer = await either.completed(messages=[user(prompt)])
    assert (answer.status, answer.json["error"]["param"]) == (400, "messages")


async def test_terms_are_those_of_a_glossary(gateway: RunningGateway, server: StandIn) -> None:
    options = {"target_lang": "zh", "terms": [{"source": "cat", "target": "猫"}]}
    await completed(gateway, model="tiny", messages=[user("a cat")], translation_options=options)
    (entry,) = server.asked[-1].settings.glossary_entries
    assert (entry.source, list(entry.targets)) == ("cat", ["猫"])


NO_TRANSLATION: list[tuple[dict[str, Any], int, str]] = [
    ({"model": "gpt-5"}, 404, "there is no model 'gpt-5'"),
    ({"model": "en-fr"}, 404, "there is no model 'en-fr'"),
    ({"model": "tiny"}, 400, "translation_options.target_lang: must be given"),
    ({"model": "tiny", "translation_options": {"target_lang": "Klingon"}}, 404, "Klingon"),
    ({"translation_options": {"domains": "law"}}, 400, "translation_options.domains"),
    ({"translation_options": {"tm_list": []}}, 400, "translation_options.tm_list"),
    ({"messages": []}, 400, "messages"),
    ({"messages": [user("")]}, 400, "messages: must end with a message of the user"),
    ({"messages": [system("Translate into Japanese."), user("hello")]}, 400, "messages: must not ask for ja"),
    ({"messages": [user([{"type": "image_url", "image_url": {"url": "x"}}])]}, 400, "messages[0].content"),
    ({"messages": [{"role": "tool", "content": "hello"}]}, 400, "messages[0].role"),
    ({"n": 2}, 400, "n: "),
    ({"stop": "."}, 400, "stop: "),
    ({"logprobs": True}, 400, "logprobs: "),
    ({"response_format": {"type": "json_object"}}, 400, "response_format: must be text"),
    ({"response_format": {"type": "json_schema", "json_schema": 1}}, 400, "response_format: must be text"),
    ({"response_format": NEXTCLOUD_FORMAT, "stream": True}, 400, "response_format: must be text in a stream"),
]


async def test_what_is_no_translation_is_refused(gateway: RunningGateway) -> None:
    for fields, status, words in NO_TRANSLATION:
        answer = await completed(gateway, **fields)
        error = answer.json["error"]
        assert (answer.status, error["type"], words in error["message"]) == (status, "invalid_request_error", True)


async def test_a_body_that_is_no_json_is_refused_in_the_form_of_the_api(gateway: RunningGateway) -> None:
    answer = await gateway.post("/v1/chat/completions", data=b"{", content_type="application/json")
    assert (answer.status, answer.json["error"]["type"]) == (400, "invalid_request_error")


async def test_what_is_almost_a_prompt_is_text(gateway: RunningGateway, server: StandIn) -> None:
    for prompt in (
        "You are\n## Rules\n" + "\n## Rules\n" * 20_000,
        "You are " + "\n\nNow translate the following text:\n\n" * 5_000,
        "Translate the following text from " + "x to " * 40_000,
        BABELDOC_LINE.partition("unnecessary")[0] + "unnecessary " + "NO explanations. NO notes. " * 8_000,
    ):
        answer = await completed(gateway, messages=[user(prompt)])
        assert (answer.status, list(server.asked[-1].contents)) == (200, [prompt])
