"""Lists of languages and of pairs tell what two models translate from what one does, in fields of their own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from gateways import RunningGateway
from stand_in_server import StandIn

EN_ZH, ZH_PT = {"en": None, "zh": ["de", "pt"]}, {("zh", "de"): "en", ("zh", "pt"): "en"}


@pytest.fixture(scope="module")
def stand_in() -> StandIn:
    return StandIn(sources=("en",), targets=("de", "pt"), pivoted_sources=("zh",))


async def listed(gateway: RunningGateway, address: str) -> Any:
    answer = await gateway.get(address)
    assert answer.status == 200, answer.json
    return answer.json


async def test_lists_of_languages_name_the_targets_through_another(gateway: RunningGateway) -> None:
    found = {
        "deepl": {each["language"].lower(): each for each in await listed(gateway, "/v2/languages")},
        "libretranslate": {each["code"]: each for each in await listed(gateway, "/languages")},
        "microsoft": (await listed(gateway, "/languages?api-version=3.0"))["translation"],
        "google": {
            each["language"]: each
            for each in (await listed(gateway, "/language/translate/v2/languages"))["data"]["languages"]
        },
    }
    pivoted = {
        api: {code: languages[code].get("pivoted_targets") for code in EN_ZH} for api, languages in found.items()
    }
    assert pivoted == dict.fromkeys(found, EN_ZH) | {"deepl": {"en": None, "zh": ["DE", "PT-BR", "PT-PT"]}}
    assert found["google"]["zh-CN"]["pivoted_targets"] == ["de", "pt"]
    targets = await listed(gateway, "/v2/languages?type=target")
    sources = {each["language"]: each.get("pivoted_sources") for each in targets}
    assert sources == {"DE": ["ZH"], "PT-BR": ["ZH"], "PT-PT": ["ZH"]}


async def test_lists_of_pairs_name_the_language_between_two_models(gateway: RunningGateway) -> None:
    models = (await listed(gateway, "/v1/models"))["data"]
    assert [each["id"] for each in models] == ["auto-de", "auto-pt", "en-de", "en-pt", "zh-de", "zh-pt"]
    assert {each["id"]: each["pivot"] for each in models if "pivot" in each} == {"zh-de": "en", "zh-pt": "en"}
    assert (await listed(gateway, "/v1/models/zh-pt"))["pivot"] == "en"
    pairs = (await listed(gateway, "/v2/glossary-language-pairs"))["supported_languages"]
    assert {(each["source_lang"], each["target_lang"]): each.get("pivot") for each in pairs} == ZH_PT | {
        ("en", "de"): None,
        ("en", "pt"): None,
    }


async def test_hundreds_of_pairs_are_listed_with_those_of_one_model_first(
    gateway: RunningGateway, server: StandIn
) -> None:
    server.sources = ("zz",)
    server.targets = [f"a{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    server.pivoted_sources = [f"b{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    models = (await listed(gateway, "/v1/models"))["data"]
    pairs = [each["id"] for each in models if not each["id"].startswith("auto-")]
    assert len(pairs) == 27 * 26
    assert pairs[:26] == [f"zz-{target}" for target in server.targets]


async def test_a_named_model_of_google_lists_its_own_pairs_alone(gateway: RunningGateway) -> None:
    address = "/v3/projects/p/locations/global/supportedLanguages"
    every = await listed(gateway, address)
    one = await listed(gateway, f"{address}?model=projects/p/locations/global/models/tiny")
    sources = [
        {each["languageCode"] for each in answer["languages"] if each.get("supportSource")} for answer in (every, one)
    ]
    assert sources == [{"en", "zh", "zh-CN"}, {"en"}]


async def test_official_clients_read_lists_with_pivoted_pairs(gateway: RunningGateway) -> None:
    deepl, openai = pytest.importorskip("deepl"), pytest.importorskip("openai")
    text = pytest.importorskip("azure.ai.translation.text")
    client = deepl.Translator("key", server_url=gateway.url)
    assert [each.code for each in await asyncio.to_thread(client.get_source_languages)] == ["EN", "ZH"]
    assert len(await asyncio.to_thread(client.get_target_languages)) == 3
    assert len(await asyncio.to_thread(client.get_glossary_languages)) == 4
    microsoft = text.TextTranslationClient(endpoint=gateway.url)
    found = await asyncio.to_thread(microsoft.get_supported_languages, scope="translation")
    assert sorted(found.translation) == ["de", "en", "pt", "zh"]
    async with openai.AsyncOpenAI(api_key="key", base_url=f"{gateway.url}/v1") as opened:
        assert [each.id async for each in await opened.models.list()][-1] == "zh-pt"
