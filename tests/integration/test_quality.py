"""How far to trust a translation: the bundled model's head through a real server and both clients."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.integration.conftest import shared

from xuanzang.client import AsyncTranslationClient, Quality, QualityFlag, TranslationClient

BUNDLED = Path(__file__).parents[2] / "server" / "models"
EASY, HARD = "我有一只猫。", "塞翁失马，焉知非福。"


@shared
async def bundled(start_server: Any, bundled_zh_en: Path) -> AsyncIterator[Any]:
    async with start_server(models=bundled_zh_en, detection=False) as server:
        yield server


@shared
async def client(bundled: Any) -> AsyncIterator[AsyncTranslationClient]:
    async with AsyncTranslationClient(bundled.address) as opened:
        yield opened


async def quality_of(client: AsyncTranslationClient, text: str) -> Quality:
    translation = await client.translate_one(text, return_quality=True)
    quality = translation.hypotheses[0].quality
    assert quality
    return quality


async def test_every_kind_of_call_has_the_same_quality(bundled: Any, client: AsyncTranslationClient) -> None:
    expected = await quality_of(client, EASY)
    streamed = [item.translation async for item in client.translate_stream([EASY], return_quality=True)]
    parts = [part async for part in client.translate_progressively(EASY, return_quality=True)]
    with TranslationClient(bundled.address) as blocking:
        others = [await asyncio.to_thread(blocking.translate_one, EASY, return_quality=True), *streamed]
    others += [part.translation for part in parts if part.translation]
    assert len(others) == 3
    assert [other.hypotheses[0].quality for other in others] == [expected] * 3


async def test_asking_for_quality_changes_nothing_else(client: AsyncTranslationClient) -> None:
    texts = [EASY, HARD, f"{EASY}{HARD}\n{EASY}", " "]
    plain = await client.translate(texts, return_scores=True)
    assessed = await client.translate(texts, return_scores=True, return_quality=True)
    for before, after in zip(plain, assessed, strict=True):
        assert before.hypotheses[0].quality is None
        assert dataclasses.replace(after.hypotheses[0], quality=None) == before.hypotheses[0]


async def test_french_has_a_flag_and_no_verdict_if_it_is_called_chinese_or_short(start_server: Any) -> None:
    async with start_server(models=BUNDLED) as running, AsyncTranslationClient(running.address) as client:
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


async def test_tags_do_not_change_the_quality_of_their_text(client: AsyncTranslationClient) -> None:
    asked: Any = {"return_quality": True, "content_format": "html"}
    expected = [await quality_of(client, text) for text in (EASY, f"{EASY}\n{HARD}")]
    tagged = await client.translate_one(f"<p>{EASY[:2]}<b>{EASY[2:]}</b></p>", **asked)
    several = await client.translate_one(f"<p>{EASY}</p>\n<p><i>{HARD}</i></p>", **asked)
    assert "<b>" in tagged.text
    assert [each.hypotheses[0].quality for each in (tagged, several)] == expected


async def test_a_text_is_as_good_as_its_worst_sentence(client: AsyncTranslationClient) -> None:
    easy, hard = await quality_of(client, EASY), await quality_of(client, HARD)
    both = await quality_of(client, EASY + HARD)
    blank = await quality_of(client, " \n")
    assert easy.acceptable_probability
    assert hard.acceptable_probability
    assert easy.acceptable_probability > 0.8
    assert hard.acceptable_probability < 0.4
    assert both == hard
    assert blank == Quality(acceptable_probability=None)


async def test_faults_are_flagged_and_assessments_counted(bundled: Any, client: AsyncTranslationClient) -> None:
    before = await bundled.scrape()
    # No reader would pause anywhere in it, and the model takes 128 tokens.
    cut = await quality_of(client, "".join(map(chr, range(0x4E00, 0x4F00))))
    short = await client.translate_one(EASY, return_quality=True, max_target_length=2)
    await client.translate([EASY, HARD])
    assert QualityFlag.CUT in cut.flags
    assert short.hypotheses[0].quality
    assert QualityFlag.TRUNCATED in short.hypotheses[0].quality.flags
    counted = (await bundled.scrape()).since(before)
    assert counted.value("nmt_quality_probability_count") == 2
    assert counted.value("nmt_quality_flags_total", flag="truncated") == 1
