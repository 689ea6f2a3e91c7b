"""Each API refuses in its own form, and by its own names, what it does not have and what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gateways import RunningGateway


@pytest.mark.parametrize(
    ("path", "status", "member"),
    [
        ("/v3/projects/any:batchTranslateText", 501, "error"),
        ("/language/translate/v2/models", 501, "error"),
        ("/translate_a/element.js", 501, "error"),
        ("/v2/repository/models/tiny/load", 501, "error"),
        ("/v2/repository/models/tiny/unload", 501, "error"),
        ("/v2/systemsharedmemory/region/r/register", 501, "error"),
        ("/v2/cudasharedmemory/region/r/register", 501, "error"),
        ("/v3/style_rules", 404, "message"),
        ("/v2/write/rephrase", 404, "message"),
    ],
)
async def test_what_is_not_there_is_refused_in_the_form_of_its_api(
    gateway: RunningGateway, path: str, status: int, member: str
) -> None:
    answer = await gateway.post(path, json={})
    assert (answer.status, list(answer.json)) == (status, [member])


MICROSOFT = "/translate?api-version=3.0"
PROJECT = "/v3/projects/p/locations/global"
CHAT = {"model": "auto-en", "messages": [{"role": "user", "content": "猫"}]}
TENSOR = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["猫"]}
DICTIONARY = {"source_lang": "zh", "target_lang": "en", "entries": "猫\tcat"}


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/imme", {"text_list": ["猫"], "target_lang": "qq"}, "target_lang: 'qq' is not supported; served: en"),
        (
            "/imme",
            {"text_list": ["猫"], "source_lang": "qq", "target_lang": "en"},
            "source_lang: 'qq' is not supported",
        ),
        ("/translate", {"text": "猫", "target_lang": "QQ"}, "target_lang: 'QQ' is not supported"),
        ("/translate", {"text": "猫", "from": "qq", "to": "en"}, "from: 'qq' is not supported; served: zh"),
        ("/translate", {"q": "猫", "langpair": "zh|qq"}, "langpair: 'qq' is not supported"),
        (f"{MICROSOFT}&to=qq", [{"Text": "猫"}], "to: 'qq' is not supported"),
        ("/language/translate/v2", {"q": "猫", "target": "qq"}, "target: 'qq' is not supported"),
        (f"{PROJECT}:translateText", {"contents": ["猫"], "targetLanguageCode": "qq"}, "target_language_code: 'qq' is"),
        (f"{PROJECT}:translateText", {"contents": ["猫"], "model": "a/b/c"}, "MODEL, of at most 512 characters"),
        ("/v1/translate", {"texts": ["猫"], "target_language": "qq"}, "target_language: 'qq' is not supported"),
        (
            "/v1/chat/completions",
            CHAT | {"messages": [{"role": "user", "content": [{"type": "image"}]}]},
            "messages[0].content[0].type: Input should be 'text'",
        ),
        ("/v1/translate", {"texts": ["猫"]}, "target_language: Field required"),
        (f"/detect{MICROSOFT.removeprefix('/translate')}", [{"Text": "猫"}, {"Text": " "}], "body[1]: must be a text"),
        ("/detect", {"q": ["猫", "狗"]}, "q: must be one text, are 2"),
        ("/v2/models/tiny/infer", {"inputs": [TENSOR | {"data": [], "shape": [0]}]}, "inputs[0].data: must be given"),
        (
            "/v2/translate",
            {"text": ["猫"], "target_lang": "EN", "tag_handling": "xml", "ignore_tags": ["a b"]},
            "ignore_tags: must be at most 64 names of tags, of letters",
        ),
        (
            "/v2/translate",
            {"text": ["猫"], "target_lang": "EN", "ignore_tags": ["x"]},
            "ignore_tags: needs tag_handling",
        ),
        (
            "/v3/glossaries",
            {"name": "n", "dictionaries": [DICTIONARY, {"source_lang": "zh", "target_lang": "en"}]},
            "dictionaries[1].entries: must be given",
        ),
    ],
)
async def test_a_refusal_names_the_field_as_callers_of_its_api_know_it(
    gateway: RunningGateway, path: str, body: Any, message: str
) -> None:
    answer = await gateway.post(path, json=body)
    assert answer.status in (400, 404)
    assert message in json.dumps(answer.json, ensure_ascii=False)
