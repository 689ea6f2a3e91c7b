"""Pairs of languages that two models translate: Chinese to English, and English to what the tests call Japanese."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from gateways import running_gateway
from keyed_rpcs import KeysFile
from tests.integration.conftest import BUNDLED, RunningServer, StartServer, shared

from xuanzang.client import (
    AccessDeniedError,
    AsyncTranslationClient,
    GlossaryOutcome,
    InvalidRequestError,
    ModelNotFoundError,
    OverloadedError,
)
from xuanzang.server import Translator

HELD_BACK = Path(__file__).parents[1] / "support" / "held_back_sentences.tsv"
PAIR: Any = {"source_language": "zh", "target_language": "ja"}
SENTENCES = ["今天天气很好。", "我有一只猫。"]
TEXT = "".join(SENTENCES)


def copied(bundle: str, model: Path, **changes: Any) -> None:
    """Copy a bundled model under another name."""
    [version] = (BUNDLED / bundle).iterdir()
    folder = Path(shutil.copytree(version, model / version.name))
    manifest = folder / "manifest.json"
    content = json.loads(manifest.read_text()) | {"model": model.name} | changes
    manifest.write_text(json.dumps(content))


def sources(count: int) -> list[str]:
    """Return Chinese sentences."""
    with HELD_BACK.open(encoding="utf-8", newline="") as file:
        found = [row[1] for row in csv.reader(file, delimiter="\t") if row[0] == "zh-en"]
    return (found * (count // len(found) + 1))[:count]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model into English and one from it."""
    root = tmp_path_factory.mktemp("models")
    copied("zh-en", root / "zh-en")
    copied("en-zh", root / "en-ja", target_language_codes=["ja"])
    return root


@shared
async def running(start_server: StartServer, repository: Path) -> AsyncIterator[RunningServer]:
    async with start_server(models=repository, pivot="en") as running:
        yield running


@shared
async def client(running: RunningServer) -> AsyncIterator[AsyncTranslationClient]:
    async with AsyncTranslationClient(running.address) as opened:
        yield opened


async def test_a_pair_without_a_model_is_translated_by_two(
    client: AsyncTranslationClient, running: RunningServer
) -> None:
    before = await running.scrape()
    english = [each.text for each in await client.translate(SENTENCES, target_language="en")]
    direct = await client.translate(english, source_language="en", target_language="ja")
    found = await client.translate_one(TEXT, return_provenance=True, **PAIR)
    assert found.text == "".join(part.text for part in direct)
    assert direct[0].pivot is None
    assert found.pivot is not None
    assert (found.model, found.pivot.model, found.pivot.language) == ("en-ja", "zh-en", "en")
    assert found.provenance is not None
    assert found.provenance.pivot is not None
    assert [len(each.sentences) for each in (found.provenance, found.provenance.pivot)] == [2, 2]
    [replay] = await client.replay(found.capsule())
    assert replay.is_identical
    assert not replay.conditions
    detected = await client.translate_one(TEXT, target_language="ja")
    assert (detected.text, detected.detected_language) == (found.text, "zh")
    streamed = {each.index: each async for each in client.translate_stream(SENTENCES, **PAIR)}
    assert [streamed[index].translation.text for index in range(2)] == [part.text for part in direct]
    progressive = [part async for part in client.translate_progressively(TEXT, **PAIR)]
    assert "".join(part.text_delta for part in progressive) == found.text
    assert len(progressive) > 2
    scrape = (await running.scrape()).since(before)
    assert scrape.value("nmt_pivoted_requests_total", model="zh-en", step="first") == 6
    assert scrape.value("nmt_pivoted_requests_total", model="en-ja", step="second") == 6


async def test_tags_and_placeholders_are_exact(client: AsyncTranslationClient) -> None:
    tags = re.compile("<[^>]+>")
    pages = [
        f'<p><a href="/{number}">{text[: len(text) // 2]}</a>{text[len(text) // 2 :]}<br/><b>猫</b></p>'
        for number, text in enumerate(sources(120))
    ]
    translated = await client.translate(pages, content_format="html", timeout=120, **PAIR)
    for page, each in zip(pages, translated, strict=True):
        assert sorted(tags.findall(each.text)) == sorted(tags.findall(page))
    filled = await client.translate(
        [f"%s 有 {{count}} 只猫。{text}" for text in sources(20)], placeholders=["printf", "braces"], **PAIR
    )
    for each in filled:
        lost = each.hypotheses[0].lost_placeholders
        assert lost or (each.text.count("%s"), each.text.count("{count}")) == (1, 1)
    assert sum(not each.hypotheses[0].lost_placeholders for each in filled) >= 15


async def test_terms_are_those_of_the_whole_pair_and_reported(client: AsyncTranslationClient) -> None:
    texts = ["我有一只猫。", "猫在桌子上。", "今天天气很好。"]
    found = await client.translate(texts, glossary={"猫": "泽菲"}, **PAIR)
    for text, each in zip(texts, found, strict=True):
        assert [match.source for match in each.glossary_matches] == ["猫"] * text.count("猫")
        for match in each.glossary_matches:
            assert text[match.source_start : match.source_end] == "猫"
            assert (match.outcome is GlossaryOutcome.HONOURED) == (match.target in each.text and match.target != "")
    assert "泽菲" in found[0].text
    kept = await client.translate_one("请看 https://example.org/a 这一页。", protected_patterns=["url"], **PAIR)
    assert "https://example.org/a" in kept.text
    [match] = kept.glossary_matches
    assert (match.source, match.outcome) == ("https://example.org/a", GlossaryOutcome.HONOURED)


async def test_tokens_name_places_in_the_source(client: AsyncTranslationClient) -> None:
    found = await client.translate_one(TEXT, token_details=True, **PAIR)
    tokens = found.hypotheses[0].tokens
    assert "".join(token.text for token in tokens) == found.text
    assert all(0 <= token.source_start <= token.source_end <= len(TEXT) for token in tokens)
    cat = next(token for token in tokens if "猫" in token.text)
    assert "猫" in TEXT[cat.source_start : cat.source_end]
    several = await client.translate_one(SENTENCES[0], num_hypotheses=3, **PAIR)
    assert len({each.text for each in several.hypotheses}) == 3


async def test_what_two_models_cannot_do_is_refused_by_name(client: AsyncTranslationClient) -> None:
    with pytest.raises(ModelNotFoundError, match=r"two models do, through en, which .* explanations exclude"):
        await client.explain(SENTENCES[0], **PAIR)
    with pytest.raises(InvalidRequestError, match=r"num_hypotheses: more than 1 only for texts of a single sentence"):
        await client.translate_one(TEXT, num_hypotheses=2, **PAIR)
    with pytest.raises(InvalidRequestError, match=r"en-ja/\d+, the second of two models"):
        await client.translate_one(SENTENCES[0], target_prefix="字" * 400, **PAIR)
    for options in ({"allow_pivot": False}, {"model": "en-ja"}):
        with pytest.raises(ModelNotFoundError, match="zh to ja"):
            await client.translate_one(TEXT, **PAIR, **options)
    with pytest.raises(ModelNotFoundError, match="zh to zh"):
        await client.translate_one(TEXT, source_language="zh", target_language="zh")


async def test_a_key_needs_both_models_and_pays_for_both(
    start_server: StartServer, repository: Path, tmp_path: Path
) -> None:
    file, quota = tmp_path / "keys.json", 3 * len(TEXT)
    keys = {
        name: KeysFile(file).add(name, models=models, characters_per_minute=quota)
        for name, models in (("both", ["zh-en", "en-ja"]), ("first", ["zh-en"]), ("second", ["en-ja"]))
    }
    async with start_server(models=repository, pivot="en", keys_file=file) as running:
        for name, missing in (("first", "en-ja"), ("second", "zh-en")):
            async with AsyncTranslationClient(running.address, api_key=keys[name]) as client:
                with pytest.raises(AccessDeniedError, match=f"{missing}/.* is not allowed"):
                    await client.translate_one(TEXT, **PAIR)
                assert not any(each.pivot_language for each in await client.list_models())
        async with AsyncTranslationClient(running.address, api_key=keys["both"]) as client:
            await client.translate_one(TEXT, **PAIR)
            with pytest.raises(OverloadedError, match="characters per minute, is used up"):
                await client.translate_one(TEXT, timeout=5, **PAIR)


@pytest.fixture
def room_for_one(repository: Path) -> str:
    """Return a value of --model-memory that holds either model, and not both."""
    sizes = [sum(path.stat().st_size for path in folder.glob("*/*")) for folder in repository.iterdir()]
    return f"{(max(sizes) + min(sizes) / 2) / 1e6 + 4:.1f}MB"


async def test_two_models_work_where_memory_has_room_for_one(
    start_server: StartServer, repository: Path, room_for_one: str
) -> None:
    async with (
        start_server(models=repository, pivot="en", model_memory=room_for_one) as running,
        AsyncTranslationClient(running.address) as client,
    ):
        found = await client.translate_one(TEXT, timeout=60, **PAIR)
        assert found.pivot is not None


def test_translation_in_one_process_goes_through_a_language_too(repository: Path) -> None:
    with Translator(repository, pivot="en") as translator:
        found = translator.translate_one(TEXT, **PAIR)
        assert found.pivot is not None
        assert (found.pivot.model, found.model) == ("zh-en", "en-ja")


async def test_the_gateway_lists_pivoted_pairs_apart_and_translates_them(running: RunningServer) -> None:
    async with running_gateway(running.address) as gateway:
        listed = {each["name"]: each for each in (await gateway.get("/v1/models")).json["models"]}
        assert (listed["en-ja"]["pivoted_source_languages"], listed["en-ja"]["pivot_language"]) == (["zh"], "en")
        languages = {each["code"]: each for each in (await gateway.get("/languages")).json}
        assert languages["zh"]["targets"] == ["en", "ja"]
        assert languages["zh"]["pivoted_targets"] == ["ja"]
        assert "pivoted_targets" not in languages["en"]
        answer = await gateway.post("/v1/translate", json={"texts": [TEXT], **PAIR})
        [translation] = answer.json["translations"]
        assert translation["pivot"] == {
            "language": "en",
            "model": "zh-en",
            "model_version": translation["pivot"]["model_version"],
        }
        libre = await gateway.post("/translate", json={"q": TEXT, "source": "auto", "target": "ja"})
        assert libre.json["translatedText"] == translation["text"]
        refused = await gateway.post("/v1/translate", json={"texts": [TEXT], "allow_pivot": False, **PAIR})
        assert refused.status == 404
