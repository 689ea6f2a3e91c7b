from __future__ import annotations

import asyncio
import dataclasses
import itertools
from typing import Any

import pytest

from xuanzang.client import AsyncTranslationClient, DeadlineExceededError, FinishReason, SamplingOptions, Translation

TEXT = "今天天气很好，我们去公园吧。"
SENTENCES = ["我有一只猫。", TEXT, "你好。", "老师有三只虎！"]

CHOICES: list[dict[str, Any]] = [
    {},
    {"beam_size": 1},
    {"beam_size": 7, "num_hypotheses": 7, "length_penalty": 0.0},
    {"coverage_penalty": 2.0},
    {"repetition_penalty": 1.7},
    {"no_repeat_ngram_size": 2},
    {"target_prefix": "they have"},
    {"suppressed_texts": ["e", "have"]},
    {"sampling": SamplingOptions(seed=3, temperature=2.0), "num_hypotheses": 3},
    {"return_alternatives": True, "num_hypotheses": 4},
    {"token_details": True, "min_target_length": 9},
]


def texts_of(translation: Translation) -> list[str]:
    return [hypothesis.text for hypothesis in translation.hypotheses]


def shown(translation: Translation) -> list[tuple[str, float]]:
    return [(hypothesis.text, round(hypothesis.score or 0.0, 4)) for hypothesis in translation.hypotheses]


async def test_no_translation_depends_on_the_options_of_others(client: AsyncTranslationClient) -> None:
    wanted = [(text, options) for text in SENTENCES for options in CHOICES]

    async def translated(text: str, options: dict[str, Any]) -> list[tuple[str, float]]:
        return shown(await client.translate_one(text, return_scores=True, **options))

    alone = [await translated(*each) for each in wanted]
    together = await asyncio.gather(*(translated(*each) for each in wanted))
    assert together == alone


async def test_a_prefix_of_a_translation_gives_the_same_translation(client: AsyncTranslationClient) -> None:
    [free] = texts_of(await client.translate_one(TEXT, beam_size=1))
    beginning = free[: len(free) // 2].rpartition(" ")[0]
    assert texts_of(await client.translate_one(TEXT, beam_size=1, target_prefix=beginning)) == [free]


async def test_every_hypothesis_starts_with_the_prefix(client: AsyncTranslationClient) -> None:
    forced = texts_of(await client.translate_one(TEXT, target_prefix="they have", num_hypotheses=4))
    assert all(text.startswith("they have") for text in forced)
    assert len(set(forced)) == 4


async def test_suppressed_texts_occur_in_no_hypothesis(client: AsyncTranslationClient) -> None:
    [hypothesis] = (await client.translate_one(TEXT, token_details=True)).hypotheses
    unwanted = {token.text.strip() for token in hypothesis.tokens if token.text.strip().isalpha()}
    assert unwanted
    other = await client.translate_one(TEXT, suppressed_texts=sorted(unwanted), token_details=True, num_hypotheses=4)
    for hypothesis in other.hypotheses:
        assert not unwanted & {token.text.strip() for token in hypothesis.tokens}


async def test_equal_seeds_give_equal_draws_and_other_seeds_others(client: AsyncTranslationClient) -> None:
    async def drawn(**sampling: Any) -> list[tuple[str, float]]:
        options = SamplingOptions(**sampling)
        return shown(await client.translate_one(TEXT, sampling=options, num_hypotheses=8, return_scores=True))

    first = await drawn(seed=1, temperature=2.0)
    assert first == await drawn(seed=1, temperature=2.0)
    assert first != await drawn(seed=1000, temperature=2.0)
    assert await drawn(temperature=2.0) != await drawn(temperature=2.0)
    assert [score for _, score in first] == sorted((score for _, score in first), reverse=True)


@pytest.mark.parametrize("prefix", ["", "they"])
async def test_alternatives_differ_right_after_the_prefix(client: AsyncTranslationClient, prefix: str) -> None:
    translation = await client.translate_one(
        TEXT, return_alternatives=True, num_hypotheses=6, target_prefix=prefix, token_details=True, return_scores=True
    )
    [alone] = (await client.translate_one(TEXT, target_prefix=prefix, token_details=True, beam_size=1)).hypotheses
    common = 0
    if prefix:
        common = next(index for index, token in enumerate(alone.tokens) if token.score)
    openings = [hypothesis.tokens[common] for hypothesis in translation.hypotheses]
    # Parts of a character have the same text, but not the same probability.
    assert len({(token.text, token.score) for token in openings}) == 6
    assert all(text.startswith(prefix) for text in texts_of(translation))
    # Greedy search takes the most likely opening.
    assert max(openings, key=lambda token: token.score).text == alone.tokens[common].text
    scores = [hypothesis.score or 0.0 for hypothesis in translation.hypotheses]
    assert scores == sorted(scores, reverse=True)


async def test_tokens_add_up_to_the_text_and_its_score(client: AsyncTranslationClient) -> None:
    for translation in await client.translate(SENTENCES, token_details=True, return_scores=True, length_penalty=1.0):
        [hypothesis] = translation.hypotheses
        assert len(hypothesis.tokens) == hypothesis.token_count
        assert "".join(token.text for token in hypothesis.tokens).strip() == hypothesis.text
        mean = sum(token.score for token in hypothesis.tokens) / hypothesis.token_count
        assert hypothesis.score == pytest.approx(mean, abs=1e-4)


async def test_tokens_point_into_their_own_sentence_of_the_text(client: AsyncTranslationClient) -> None:
    text = "".join(SENTENCES)
    [hypothesis] = (await client.translate_one(text, token_details=True)).hypotheses
    alone = await client.translate(SENTENCES, token_details=True)
    offsets = itertools.accumulate(map(len, SENTENCES), initial=0)
    assert len(hypothesis.tokens) == hypothesis.token_count
    assert [(token.text, token.source_start, token.source_end) for token in hypothesis.tokens] == [
        (token.text, token.source_start + offset, token.source_end + offset)
        for offset, translation in zip(offsets, alone, strict=False)
        for token in translation.hypotheses[0].tokens
    ]


async def test_what_is_not_in_effect_or_only_shown_changes_no_translation(client: AsyncTranslationClient) -> None:
    [plain] = (await client.translate_one(TEXT)).hypotheses
    asked: Any
    for asked in ({"token_details": True}, {"partial_on_deadline": True}, {"coverage_penalty": 0.0}):
        [other] = (await client.translate_one(TEXT, **asked)).hypotheses
        assert plain == dataclasses.replace(other, tokens=())


async def test_partial_on_deadline_returns_the_best_so_far(client: AsyncTranslationClient, running: Any) -> None:
    long: Any = {"beam_size": 16, "min_target_length": 250, "max_target_length": 254, "partial_on_deadline": True}
    before = await running.scrape()
    # Long enough that so many tokens may be forced.
    text = "，".join([TEXT.rstrip("。")] * 20)
    whole = await client.translate_one(text, timeout=600, **long)
    reasons = {whole.hypotheses[0].finish_reason}
    # A time between none and enough is found, whatever else the machine is doing.
    seconds = 1.0
    for _ in range(40):
        try:
            partial = await client.translate_one(text, timeout=seconds, **long)
        except DeadlineExceededError:
            seconds *= 1.3
            continue
        reasons.add(partial.hypotheses[0].finish_reason)
        if partial.hypotheses[0].finish_reason is FinishReason.DEADLINE:
            break
        seconds *= 0.7
    assert FinishReason.DEADLINE in reasons
    assert 0 < partial.hypotheses[0].token_count < whole.hypotheses[0].token_count
    scrape = (await running.scrape()).since(before)
    in_vain = scrape.value("nmt_request_failures_total", reason="deadline")
    assert scrape.value("nmt_requests_total", finish_reason="deadline") == in_vain + 1


async def test_a_single_text_does_not_wait_for_the_texts_of_another_caller(running: Any) -> None:
    async with (
        AsyncTranslationClient(running.address, client_id="many") as many,
        AsyncTranslationClient(running.address, client_id="one") as one,
    ):
        calls = [
            asyncio.ensure_future(many.translate(SENTENCES * 20, min_target_length=40, timeout=600)) for _ in range(3)
        ]
        await running.until_metric("nmt_requests_running")
        await one.translate_one("你好。", timeout=600)
        assert not any(call.done() for call in calls)
        assert [len(translations) for translations in await asyncio.gather(*calls)] == [80] * 3
