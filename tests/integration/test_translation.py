from __future__ import annotations

import asyncio
from typing import Any

from xuanzang.client import AsyncTranslationClient, FinishReason, TranslationClient

TEXTS = ["我有一只猫。", "你好。", "今天天气很好，我们去公园吧。", "谢谢你。"]


async def test_every_kind_of_call_gives_the_same_translation(client: AsyncTranslationClient, running: Any) -> None:
    def synchronous() -> list[str]:
        with TranslationClient(running.address) as translator:
            return [translation.text for translation in translator.translate(TEXTS, target_language="en")]

    together = [translation.text for translation in await client.translate(TEXTS, target_language="en")]
    alone = [(await client.translate_one(text, target_language="en")).text for text in TEXTS]
    streamed = [item.translation.text async for item in client.translate_stream(TEXTS, ordered=True)]
    assert together == alone == streamed == await asyncio.to_thread(synchronous)


async def test_hypotheses_come_best_first_with_their_scores_if_asked_for(client: AsyncTranslationClient) -> None:
    translation = await client.translate_one("你好。", beam_size=4, num_hypotheses=4, return_scores=True)
    scores = [hypothesis.score for hypothesis in translation.hypotheses]
    assert len(scores) == 4
    assert all(score is not None and score <= 0 for score in scores)
    assert scores == sorted(scores, key=lambda score: -(score or 0.0))
    assert (await client.translate_one("你好。")).hypotheses[0].score is None


async def test_blank_texts_are_answered_unchanged(client: AsyncTranslationClient) -> None:
    blank = ["", "  ", "\n\t\u3000", "\u200b"]
    translations = await client.translate(blank)
    assert [translation.text for translation in translations] == blank
    assert {translation.hypotheses[0].finish_reason for translation in translations} == {FinishReason.COPIED}


async def test_line_breaks_of_a_long_text_are_kept(client: AsyncTranslationClient) -> None:
    translation = await client.translate_one("你好。\n\n谢谢你。\n")
    assert translation.text.count("\n") == 3
    assert translation.text.endswith("\n")


async def test_max_target_length_cuts_a_translation_with_its_finish_reason(client: AsyncTranslationClient) -> None:
    translation = await client.translate_one("今天天气很好。", max_target_length=2, min_target_length=2)
    [hypothesis] = translation.hypotheses
    assert hypothesis.finish_reason is FinishReason.MAX_LENGTH
    assert hypothesis.token_count == 2


async def test_the_model_is_listed_as_the_bundle_describes_it(client: AsyncTranslationClient) -> None:
    [model] = await client.list_models()
    assert (model.name, model.version, model.is_default) == ("tiny", "1", True)
    assert (model.source_languages, model.target_languages) == (("zh",), ("en",))
    assert len(model.manifest_sha256) == 64


async def test_concurrent_callers_get_their_own_translations(client: AsyncTranslationClient) -> None:
    expected = {text: (await client.translate_one(text)).text for text in TEXTS}
    wanted = TEXTS * 25
    translations = await asyncio.gather(*(client.translate_one(text) for text in wanted))
    assert [translation.text for translation in translations] == [expected[text] for text in wanted]
