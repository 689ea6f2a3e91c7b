from __future__ import annotations

import asyncio
from typing import Any

import pytest

from xuanzang.client import (
    AsyncTranslationClient,
    InvalidRequestError,
    ProgressiveTranslation,
    SamplingOptions,
    TranslationClient,
)

SENTENCES = ["我有一只猫。", "今天天气很好，我们去公园吧。", "你好。", "老师有三只虎！"]
LONG_TEXT = "\n\n".join("".join(SENTENCES) for _ in range(3)) + "\n"


async def parts_of(client: AsyncTranslationClient, text: str, **options: Any) -> list[ProgressiveTranslation]:
    return [part async for part in client.translate_progressively(text, **options)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"beam_size": 1},
        {"beam_size": 8, "length_penalty": 0.0},
        {"coverage_penalty": 1.0, "no_repeat_ngram_size": 2},
        {"sampling": SamplingOptions(seed=1, temperature=2.0)},
        {"token_details": True, "return_scores": True},
        {"beam_size": 4, "num_hypotheses": 4},
        {"return_alternatives": True, "num_hypotheses": 3},
        {"sampling": SamplingOptions(seed=1), "num_hypotheses": 3},
    ],
)
async def test_the_parts_form_the_text_of_an_ordinary_call(client: AsyncTranslationClient, options: Any) -> None:
    # Several hypotheses are for texts of one sentence only.
    for text in SENTENCES[1:2] if "num_hypotheses" in options else [*SENTENCES, LONG_TEXT, "", " \n"]:
        *before, last = await parts_of(client, text, **options)
        assert all(part.translation is None for part in before)
        assert last.translation == await client.translate_one(text, **options)
        assert "".join(part.text_delta for part in (*before, last)) == last.translation.text


async def test_a_long_text_comes_sentence_by_sentence_or_faster(client: AsyncTranslationClient) -> None:
    parts = await parts_of(client, LONG_TEXT)
    assert len([part for part in parts if part.text_delta]) >= 12


async def test_the_parts_include_the_prefix(client: AsyncTranslationClient) -> None:
    parts = await parts_of(client, SENTENCES[1], target_prefix="they have")
    assert "".join(part.text_delta for part in parts).startswith("they have")


async def test_the_blocking_client_gets_the_same_parts(client: AsyncTranslationClient, running: Any) -> None:
    def blocking() -> list[str]:
        with TranslationClient(running.address) as translator:
            return [part.text_delta for part in translator.translate_progressively(LONG_TEXT)]

    parts = await asyncio.to_thread(blocking)
    assert "".join(parts) == (await client.translate_one(LONG_TEXT)).text


async def test_bad_input_names_the_field(client: AsyncTranslationClient) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        await parts_of(client, "好" * 60_000)
    assert [fault.field for fault in caught.value.violations] == ["content"]
    with pytest.raises(InvalidRequestError) as caught:
        await parts_of(client, "好。好。", target_prefix="I")
    assert caught.value.violations[0].description == "only for texts of a single sentence, content has 2"


async def test_leaving_early_frees_the_worker(client: AsyncTranslationClient, running: Any) -> None:
    before = await running.scrape()
    # Far more work than is done before the caller has left.
    parts = client.translate_progressively(LONG_TEXT * 10, beam_size=16, min_target_length=60, max_target_length=60)
    await anext(parts)
    await parts.aclose()
    await running.server.rpc.join()
    await client.translate_one("你好。")
    scrape = await running.scrape()
    assert scrape.value("nmt_requests_running") == 0
    assert scrape.value("nmt_queue_tokens") == 0
    cancelled = {"grpc_method": "TranslateTextProgressively", "grpc_code": "CANCELLED"}
    assert scrape.since(before).value("grpc_server_handled_total", **cancelled) == 1


async def test_a_drain_lets_a_progressive_call_finish(start_server: Any) -> None:
    async with start_server() as running, AsyncTranslationClient(running.address) as client:
        parts = client.translate_progressively(LONG_TEXT)
        await anext(parts)
        draining = asyncio.ensure_future(running.server.drain())
        rest = [part async for part in parts]
        assert rest[-1].translation is not None
        await draining
