"""Limits of models and of the memory for keys and values, from the settings to what callers and Prometheus see."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from xuanzang.client import AsyncTranslationClient, OverloadedError

TEXTS = ["我有一只猫。", "今天天气很好", "他明天去北京看他的朋友", "谢谢"]


async def translate_mix(address: str) -> list[str]:
    """Translate texts at all beam sizes at once."""
    async with AsyncTranslationClient(address) as client:
        calls = (client.translate(TEXTS, beam_size=beam, max_target_length=40) for beam in range(1, 17))
        answers = await asyncio.gather(*calls)
    return [result.text for results in answers for result in results]


async def test_a_limit_of_memory_changes_no_translation(start_server: Any) -> None:
    async with start_server() as running:
        expected = await translate_mix(running.address)
    async with start_server(max_cache_mb=1, workers=2) as running:
        assert await translate_mix(running.address) == expected
        scrape = await running.scrape()
    assert scrape.value("nmt_cache_limit_bytes") == 10**6
    assert scrape.value("nmt_cache_reserved_bytes") <= 10**6


async def test_a_sentence_that_cannot_fit_is_refused_with_the_limit(start_server: Any) -> None:
    async with start_server(max_cache_mb=1) as running, AsyncTranslationClient(running.address) as client:
        with pytest.raises(OverloadedError, match=r"the server may use 1000000 \(--max-cache-mb\)"):
            await client.translate_one("你好。" * 20, beam_size=16, max_target_length=200)
        assert (await client.translate_one("你好。")).model == "tiny"


async def test_limits_of_a_model_are_shown_beside_their_use(start_server: Any) -> None:
    async with start_server(model_workers="tiny=1", workers=2) as running:
        await translate_mix(running.address)
        scrape = await running.scrape()
    assert scrape.value("nmt_model_workers_limit", model="tiny") == 1
    assert scrape.value("nmt_model_workers", model="tiny") <= 1
    assert scrape.value("nmt_model_cache_limit_bytes", model="tiny") == math.inf
