"""How far to trust a translation: the bundled model's head through a real server and both clients."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from xuanzang.client import (
    AsyncTranslationClient,
    InvalidRequestError,
    Quality,
    QualityFlag,
    TranslationClient,
)

BUNDLED = Path(__file__).parents[2] / "server" / "models"
EASY, HARD = "我有一只猫。", "塞翁失马，焉知非福。"


@pytest.fixture
async def bundled(start_server: Any, bundled_zh_en: Path) -> AsyncIterator[Any]:
    async with start_server(models=bundled_zh_en, detection=False) as server:
        yield server


async def quality_of(client: AsyncTranslationClient, text: str) -> Quality:
    translation = await client.translate_one(text, return_quality=True)
    quality = translation.hypotheses[0].quality
    assert quality
    return quality


async def test_every_kind_of_call_has_the_same_quality(bundled: Any) -> None:
    async with AsyncTranslationClient(bundled.address) as client:
        expected = await quality_of(client, EASY)
        streamed = [item.translation async for item in client.translate_stream([EASY], return_quality=True)]
        parts = [part async for part in client.translate_progressively(EASY, return_quality=True)]
    with TranslationClient(bundled.address) as blocking:
        others = [await asyncio.to_thread(blocking.translate_one, EASY, return_quality=True), *streamed]
    others += [part.translation for part in parts if part.translation]
    assert len(others) == 3
    assert [other.hypotheses[0].quality for other in others] == [expected] * 3


async def test_asking_for_quality_changes_nothing_else(bundled: Any) -> None:
    texts = [EASY, HARD, f"{EASY}{HARD}\n{EASY}", " "]
    async with AsyncTranslationClient(bundled.address) as client:
        plain = await client.translate(texts, return_scores=True)
        assessed = await client.translate(texts, return_scores=True, return_quality=True)
    for before, after in zip(plain, assessed, strict=True):
        assert before.hypotheses[0].quality is None
        assert dataclasses.replace(after.hypotheses[0], quality=None) == before.hypotheses[0]


async def test_french_has_a_flag_and_no_verdict_if_it_is_called_chinese_or_short(start_server: Any) -> None:
    async with (
        start_server(models=BUNDLED) as running,
        AsyncTranslationClient(running.address) as client,
    ):
        asked: Any = {"source_language": "zh", "target_language": "en", "return_quality": True}
        found = await client.translate(["Bonjour, je suis un développeur à Paris.", EASY], **asked)
        found += await client.translate(["Il pleut.", "It rains."], target_language="zh", return_quality=True)
        in_tags: Any = {"content_format": "html", "return_quality": True}
        marked = await client.translate(["<b>Bonjour</b>, je suis un développeur à Paris."], **asked | in_tags)
        marked += await client.translate(["<p>Merci</p>", "<b>It</b> rains."], target_language="zh", **in_tags)
        words = await client.translate(
            ["Merci", "Danke!", "Hola", "a house"], target_language="zh", return_quality=True
        )
        qualities = [each.hypotheses[0].quality for each in found]
        scrape = await running.scrape()
    assert [QualityFlag.SOURCE_LANGUAGE in each.flags for each in qualities if each] == [True, False, True, False]
    assert [each.acceptable_probability is None for each in qualities if each] == [True, False, True, False]
    flags = [QualityFlag.SOURCE_LANGUAGE in q.flags for each in marked if (q := each.hypotheses[0].quality)]
    assert flags == [True, False, False]
    verdicts = [q.acceptable_probability is None for each in marked if (q := each.hypotheses[0].quality)]
    assert verdicts == [True, True, False]
    told = [each.hypotheses[0].quality for each in words]
    assert [each.acceptable_probability is None for each in told if each] == [True, True, True, False]
    assert scrape.value("nmt_quality_flags_total", flag="source_language") == 3


async def test_tags_do_not_change_the_quality_of_their_text(bundled: Any) -> None:
    asked: Any = {"return_quality": True, "content_format": "html"}
    async with AsyncTranslationClient(bundled.address) as client:
        expected = [await quality_of(client, text) for text in (EASY, f"{EASY}\n{HARD}")]
        tagged = await client.translate_one(f"<p>{EASY[:2]}<b>{EASY[2:]}</b></p>", **asked)
        several = await client.translate_one(f"<p>{EASY}</p>\n<p><i>{HARD}</i></p>", **asked)
    assert "<b>" in tagged.text
    assert [each.hypotheses[0].quality for each in (tagged, several)] == expected


async def test_a_text_is_as_good_as_its_worst_sentence(bundled: Any) -> None:
    async with AsyncTranslationClient(bundled.address) as client:
        easy, hard = await quality_of(client, EASY), await quality_of(client, HARD)
        both = await quality_of(client, EASY + HARD)
        blank = await quality_of(client, " \n")
    assert easy.acceptable_probability
    assert hard.acceptable_probability
    assert easy.acceptable_probability > 0.8
    assert hard.acceptable_probability < 0.4
    assert both == hard
    assert blank == Quality(acceptable_probability=None)


async def test_faults_are_flagged(bundled: Any) -> None:
    async with AsyncTranslationClient(bundled.address) as client:
        # No reader would pause anywhere in it, and the model takes 128 tokens.
        cut = await quality_of(client, "".join(map(chr, range(0x4E00, 0x4F00))))
        short = await client.translate_one(EASY, return_quality=True, max_target_length=2)
    assert QualityFlag.CUT in cut.flags
    assert short.hypotheses[0].quality
    assert QualityFlag.TRUNCATED in short.hypotheses[0].quality.flags


async def test_only_assessed_translations_are_counted(bundled: Any) -> None:
    async with AsyncTranslationClient(bundled.address) as client:
        await client.translate([EASY, HARD])
        await client.translate([EASY, HARD, " "], return_quality=True)
        await client.translate_one(EASY, return_quality=True, max_target_length=2)
    scrape = await bundled.scrape()
    assert scrape.value("nmt_quality_probability_count") == 3
    assert scrape.value("nmt_quality_flags_total", flag="truncated") == 1


async def test_a_bundle_without_a_head_is_named_in_the_refusal(running: Any) -> None:
    async with AsyncTranslationClient(running.address) as client:
        with pytest.raises(InvalidRequestError, match="quality head") as refusal:
            await client.translate_one("a", return_quality=True)
    assert [violation.field for violation in refusal.value.violations] == ["return_quality"]
