from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import ctranslate2
import grpc
import pytest
from ctranslate2_spec import save_as_ctranslate2
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor

from benchmarks.engines.ctranslate2_server import Batcher, Waiting, choose_batch, handlers
from benchmarks.harness.loads import Callers, Load
from benchmarks.harness.processes import METHOD
from xuanzang.model.checkpoint import load_checkpoint
from xuanzang.translation.v1 import translation_pb2


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 16))
async def test_a_batch_holds_the_oldest_sentence_and_is_full_if_possible(lengths: list[int], max_batch: int) -> None:
    queue = [Waiting(pieces=["a"] * length, since=0.0, translation=asyncio.Future()) for length in lengths]
    batch = choose_batch(queue, max_batch)
    assert queue[0] in batch
    assert len(set(map(id, batch))) == len(batch) == min(max_batch, len(queue))


@pytest.fixture
def processor(tiny_checkpoint: Path) -> SentencePieceProcessor:
    return SentencePieceProcessor(model_file=str(tiny_checkpoint / "source.spm"))


@pytest.fixture
async def address(tiny_checkpoint: Path, processor: SentencePieceProcessor, tmp_path: Path) -> AsyncIterator[str]:
    save_as_ctranslate2(load_checkpoint(tiny_checkpoint), tmp_path / "model")
    translator = ctranslate2.Translator(str(tmp_path / "model"), compute_type="int8", inter_threads=1, intra_threads=1)
    batcher = Batcher(translator, workers=2, max_batch=4, delay=0.001)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([handlers(batcher, processor)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    running = asyncio.create_task(batcher.run())
    yield f"127.0.0.1:{port}"
    running.cancel()
    await server.stop(None)


async def test_sentences_of_a_batch_have_their_own_translations(
    address: str, processor: SentencePieceProcessor, toy_pairs: list[tuple[str, str]]
) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        translate_text: grpc.aio.UnaryUnaryMultiCallable[
            translation_pb2.TranslateTextRequest, translation_pb2.TranslateTextResponse
        ] = channel.unary_unary(
            METHOD,
            request_serializer=translation_pb2.TranslateTextRequest.SerializeToString,
            response_deserializer=translation_pb2.TranslateTextResponse.FromString,
        )

        async def translate(text: str) -> str:
            response = await translate_text(translation_pb2.TranslateTextRequest(contents=[text]))
            return response.translations[0].hypotheses[0].text

        # All of one length in tokens, so that a longer one in the batch does not raise the limit of the others.
        texts = [source for source, _ in toy_pairs if len(processor.encode(source)) == 6][:10]
        together = await asyncio.gather(*map(translate, texts))
        assert together == [await translate(text) for text in texts]
        assert len(set(together)) > 1


@pytest.mark.parametrize("rate", [None, 200.0])
async def test_a_load_counts_every_answer(
    address: str, toy_pairs: list[tuple[str, str]], tmp_path: Path, rate: float | None
) -> None:
    callers = Callers([source for source, _ in toy_pairs[:9]], tmp_path)
    load = Load(address=address, rate=rate, callers=3, seconds=0.5, warm_up_seconds=0, seed=1)
    result = await asyncio.to_thread(callers.call, load)
    assert result.errors == 0
    assert result.requests >= 3
    assert 0 < result.p50_ms <= result.p95_ms <= result.p99_ms


async def test_a_load_that_nothing_answers_is_no_measurement(address: str, tmp_path: Path) -> None:
    # Nobody listens there.
    callers, nowhere = Callers(["一"], tmp_path), address.replace("127.0.0.1", "127.0.0.2")
    load = Load(address=nowhere, rate=None, callers=1, seconds=0.1, warm_up_seconds=0, seed=1)
    with pytest.raises(ChildProcessError, match="no request was answered"):
        await asyncio.to_thread(callers.call, load)
