"""Kept answers, with the bundled models: in whatever order requests come, the bytes are those without them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from tests.integration.conftest import BUNDLED, fixture

from xuanzang.server import AsyncTranslator, SamplingOptions, Translation

TEXTS = [
    "我有一只猫。",
    "今天天气很好。",
    "我有一只猫。今天天气很好。",
    "她每天早上六点起床。",
    "如果文件不存在，则返回错误。我有一只猫。",
    "<b>今天</b>天气很好。",
    "",
    "OK",
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"beam_size": 1},
    {"return_scores": True},
    {"token_details": True},
    {"return_quality": True},
    {"max_target_length": 4},
    {"content_format": "html"},
    {"glossary": {"猫": "kitty"}},
    {"sampling": SamplingOptions(seed=3), "beam_size": 1},
]


@fixture
async def keeping() -> AsyncIterator[AsyncTranslator]:
    async with AsyncTranslator(BUNDLED, workers=1, answer_cache_mb=1) as translator:
        yield translator


def answer_of(translation: Translation) -> Translation:
    """Return what does not depend on time and company."""
    return replace(translation, provenance=None)


async def test_answers_are_those_of_a_server_that_keeps_none(keeping: AsyncTranslator) -> None:
    draw = random.Random(1)
    asked = [(draw.sample(TEXTS, draw.randrange(1, 4)), draw.randrange(len(OPTIONS))) for _ in range(120)]

    async def ask(translator: AsyncTranslator, texts: list[str], number: int) -> list[Translation]:
        options = {"model": "zh-en", "source_language": "zh", **OPTIONS[number]}
        try:
            return list(map(answer_of, await translator.translate(texts, **options)))
        except ValueError as error:
            return [repr(error)]  # type: ignore[list-item]

    async with AsyncTranslator(BUNDLED, workers=1) as plain:
        expected = [await ask(plain, *each) for each in asked]
    together = await asyncio.gather(*(ask(keeping, *each) for each in asked[:60]))
    one_by_one = [await ask(keeping, *each) for each in asked[60:]]
    assert [*together, *one_by_one] == expected


async def test_the_second_answer_is_kept_and_says_so(keeping: AsyncTranslator) -> None:
    first, second = [
        await keeping.translate_one("我有一只猫。今天天气很好。", model="zh-en", return_provenance=True) for _ in "ab"
    ]
    assert answer_of(first) == answer_of(second)
    assert first.provenance is not None
    assert second.provenance is not None
    assert [each.kept_answer for each in first.provenance.sentences] == [False, False]
    assert [(each.kept_answer, each.steps) for each in second.provenance.sentences] == [(True, 0), (True, 0)]


async def test_a_progressive_translation_gets_kept_sentences_at_once(keeping: AsyncTranslator) -> None:
    async def progressive() -> list[str]:
        stream = keeping.translate_progressively("我有一只猫。今天天气很好。", model="zh-en")
        return [part.text_delta async for part in stream if part.text_delta]

    slow, kept = await progressive(), await progressive()
    assert "".join(slow) == "".join(kept)
    assert len(kept) <= 2


async def test_one_who_gives_up_takes_nothing_from_the_others(keeping: AsyncTranslator) -> None:
    text = "".join(TEXTS[:5])
    tasks = [asyncio.ensure_future(keeping.translate_one(text, model="zh-en")) for _ in range(6)]
    await asyncio.sleep(0.002)
    for task in tasks[::2]:
        task.cancel()
    assert len({(await task).text for task in tasks[1::2]}) == 1
