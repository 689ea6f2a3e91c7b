"""A student of Firefox Translations on a real server: its decoder keeps states, and callers do not notice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from xuanzang.client import AsyncTranslationClient, AttentionKind, InvalidRequestError, SamplingOptions

TEXTS = ["我有一只猫。", "他有两只狗。", "Ann有三只鸟。", "你有五只猫。"]
PAIR: dict[str, Any] = {"source_language": "zh", "target_language": "en"}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["float32", "int8"])
async def client(
    request: pytest.FixtureRequest, student_bundle: Callable[[str, bool], Path], start_server: Any
) -> AsyncIterator[AsyncTranslationClient]:
    repository = student_bundle(request.param, True).parents[1]
    async with start_server(models=repository, workers=2) as running, AsyncTranslationClient(running.address) as client:
        yield client


OPTIONS: list[dict[str, Any]] = [
    {},
    {"beam_size": 4, "num_hypotheses": 4},
    {"beam_size": 4, "target_prefix": "I have"},
    {"beam_size": 3, "no_repeat_ngram_size": 2, "token_details": True},
    {"beam_size": 2, "coverage_penalty": 0.2, "length_penalty": 0.6},
]


async def test_a_list_gets_the_answers_that_each_text_gets_alone(client: AsyncTranslationClient) -> None:
    for options in OPTIONS:
        together = await client.translate(TEXTS, **PAIR, **options, return_scores=True)
        alone = [await client.translate_one(text, **PAIR, **options, return_scores=True) for text in TEXTS]
        assert [each.hypotheses for each in together] == [each.hypotheses for each in alone]


async def test_prefixes_alternatives_draws_and_progress_are_as_of_any_model(client: AsyncTranslationClient) -> None:
    prefixed = await client.translate_one(TEXTS[0], **PAIR, beam_size=4, target_prefix="I have")
    assert prefixed.text.startswith("I have")
    several = await client.translate_one(
        TEXTS[0], **PAIR, beam_size=4, num_hypotheses=4, target_prefix="I", return_alternatives=True
    )
    assert len({each.text for each in several.hypotheses}) == 4
    draws = [
        await client.translate_one(TEXTS[0], **PAIR, sampling=SamplingOptions(temperature=2.0, seed=seed))
        for seed in (1, 1, 2, 3)
    ]
    assert draws[0].text == draws[1].text
    assert len({each.text for each in draws}) > 1
    parts = [part async for part in client.translate_progressively(TEXTS[1], **PAIR)]
    assert "".join(part.text_delta for part in parts) == (await client.translate_one(TEXTS[1], **PAIR)).text


async def test_self_attention_that_a_student_lacks_is_refused_by_name(client: AsyncTranslationClient) -> None:
    explained = await client.explain(TEXTS[0], **PAIR, attention_kinds=["cross", "encoder"], attention_heads=True)
    assert {each.kind for each in explained.attention} == {AttentionKind.CROSS, AttentionKind.ENCODER}
    with pytest.raises(InvalidRequestError, match="keeps states and has no self-attention"):
        await client.explain(TEXTS[0], **PAIR, attention_kinds=["decoder"])
