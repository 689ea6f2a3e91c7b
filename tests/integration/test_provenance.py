"""How translations were made, and their replay, with real servers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from xuanzang.client import AsyncTranslationClient, Capsule, SamplingOptions, Translation, TranslationClient
from xuanzang.kernels import supported_isas

TEXT = "今天天气很好，我们去公园吧。"
TEXTS = [TEXT, "我有一只猫。你好。", " ", "老师有三只虎！"]
CHOICES: list[dict[str, Any]] = [
    {},
    {"beam_size": 1, "token_details": True},
    {"beam_size": 7, "length_penalty": 0.0},
    {"coverage_penalty": 2.0, "repetition_penalty": 1.7},
    {"sampling": SamplingOptions(temperature=2.0)},
]


async def translated(client: AsyncTranslationClient, texts: list[str], **options: Any) -> list[Translation]:
    return await client.translate(texts, return_provenance=True, return_scores=True, **options)


async def test_every_kind_of_call_says_how_it_was_answered(client: AsyncTranslationClient, running: Any) -> None:
    [model] = await client.list_models()
    unary = await client.translate_one(TEXT, return_provenance=True)
    [streamed] = [item.translation async for item in client.translate_stream([TEXT], return_provenance=True)]
    *_, last = [part async for part in client.translate_progressively(TEXT, return_provenance=True)]

    def synchronous() -> Translation:
        with TranslationClient(running.address) as translator:
            return translator.translate_one(TEXT, return_provenance=True)

    translations = [unary, streamed, last.translation, await asyncio.to_thread(synchronous)]
    made = [translation.provenance for translation in translations if translation and translation.provenance]
    methods = ["TranslateText", "StreamTranslateText", "TranslateTextProgressively", "TranslateText"]
    assert [provenance.method for provenance in made] == methods
    for provenance in made:
        assert (provenance.model, provenance.model_version) == (model.name, model.version)
        assert provenance.manifest_sha256 == model.manifest_sha256
        assert provenance.options.beam_size == model.defaults.beam_size
        [sentence] = provenance.sentences
        assert (sentence.sentence_index, sentence.worker, sentence.searches) == (0, 0, 1)
        assert sentence.steps > 0
        assert sentence.batch_sentences == 1
        assert min(sentence.queue_milliseconds, sentence.encode_milliseconds, sentence.decode_milliseconds) >= 0


async def test_sentences_are_told_apart(client: AsyncTranslationClient) -> None:
    made = [translation.provenance for translation in await translated(client, TEXTS)]
    assert [[sentence.sentence_index for sentence in each.sentences] for each in made if each] == [[0], [0, 1], [], [0]]
    [several] = await translated(client, [TEXT], sampling=SamplingOptions(), num_hypotheses=3)
    assert several.provenance is not None
    assert [sentence.sentence_index for sentence in several.provenance.sentences] == [0, 0, 0]
    [alternatives] = await translated(client, [TEXT], return_alternatives=True, num_hypotheses=2)
    assert alternatives.provenance is not None
    assert {sentence.sentence_index for sentence in alternatives.provenance.sentences} == {0}


async def test_a_replay_in_other_company_is_identical_to_the_last_bit(start_server: Any) -> None:
    async with start_server(workers=2) as running, AsyncTranslationClient(running.address) as client:
        answers = [each for options in CHOICES for each in await translated(client, TEXTS, **options)]
        capsule = Capsule.of(answers)
        crowd = asyncio.gather(
            *(client.translate(TEXTS * 4, **options, min_target_length=9) for options in CHOICES * 2)
        )
        replays = await client.replay(capsule)
        await crowd
        together = [replay.translation.provenance for replay in replays]
        assert all(replay.is_identical and not replay.conditions for replay in replays)
        sentences = [sentence for provenance in together if provenance for sentence in provenance.sentences]
        assert max(sentence.batch_sentences for sentence in sentences) > 1


async def test_progressive_and_streamed_answers_are_replayed(client: AsyncTranslationClient) -> None:
    sampled = SamplingOptions(temperature=2.0)
    options: Any = {"return_provenance": True, "sampling": sampled, "return_scores": True}
    *_, last = [part async for part in client.translate_progressively(TEXT, **options)]
    streamed = [item.translation async for item in client.translate_stream(TEXTS, **options)]
    assert last.translation is not None
    replays = await client.replay(Capsule.of([last.translation, *streamed]))
    assert all(replay.is_identical for replay in replays)
    assert replays[0].translation.provenance is not None
    assert replays[0].translation.provenance.method == "TranslateTextProgressively"


async def test_a_server_with_other_kernels_is_named(
    client: AsyncTranslationClient, start_process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if len(supported_isas()) < 2:
        pytest.skip("the processor has one instruction set only")
    capsule = Capsule.of(await translated(client, TEXTS))
    monkeypatch.setenv("XUANZANG_KERNELS_ISA", "generic")
    async with start_process() as server:
        await server.until("serving")
        async with AsyncTranslationClient(server.address) as other:
            replays = await other.replay(capsule)
    for replay in replays:
        assert [(each.field, each.recorded, each.replayed) for each in replay.conditions] == [
            ("provenance.kernels", supported_isas()[0], "generic")
        ]
