from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from xuanzang.client import (
    AsyncTranslationClient,
    DeadlineExceededError,
    InvalidRequestError,
    ModelNotFoundError,
    OverloadedError,
    SamplingOptions,
    ServerUnavailableError,
    StatusCode,
)
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2_grpc

# Far more work than a test waits for, so that it is still running when the test looks.
LONG: Any = {"beam_size": 16, "min_target_length": 60, "max_target_length": 60}


@pytest.mark.parametrize(
    ("texts", "options", "field", "limit"),
    [
        (["好"] * 1025, {}, "contents", "1 to 1024"),
        (["好", "好" * 60_000], {}, "contents[1]", "20000"),
        (["好"], {"beam_size": 17}, "options.beam_size", "1 to 16"),
        (["好"], {"sampling": SamplingOptions(top_k=257)}, "options.sampling.top_k", "1 to 256"),
        (["好"], {"target_prefix": "I have", "max_target_length": 3}, "options.target_prefix", "fewer than"),
        (["你好。谢谢你。"], {"num_hypotheses": 2}, "options.num_hypotheses", "single sentence"),
        (["我有一只猫。"], {"min_target_length": 65}, "options.min_target_length", "at most 64 target tokens"),
        (["我有一只猫。"], {"target_prefix": "cat dog " * 30}, "options.target_prefix", "at most 64 target tokens"),
        (["好"] * 1000, LONG, "contents", "tokens together"),
    ],
)
async def test_bad_input_names_the_field_and_the_limit(
    client: AsyncTranslationClient, texts: list[str], options: Any, field: str, limit: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        await client.translate(texts, **options)
    descriptions = {fault.field: fault.description for fault in caught.value.violations}
    assert limit in descriptions[field]
    assert not caught.value.retryable


async def test_a_model_that_is_not_served_is_not_found(client: AsyncTranslationClient) -> None:
    wrong: Any
    for wrong in ({"model": "none"}, {"target_language": "fr"}, {"source_language": "de"}):
        with pytest.raises(ModelNotFoundError):
            await client.translate_one("好", **wrong)


async def test_a_deadline_ends_the_call_and_its_work(client: AsyncTranslationClient, running: Any) -> None:
    # There is a series of failures once a call has failed.
    with pytest.raises(InvalidRequestError):
        await client.translate(["好"], beam_size=17)
    before = await running.scrape()
    # The time of a call may be over before a busy server begins it.
    for _ in range(20):
        with pytest.raises(DeadlineExceededError):
            await client.translate(["好"] * 400, timeout=0.3, **LONG)
        # One worker serves in turn: after this answer nothing of the first call is left.
        await client.translate_one("你好。")
        await running.server.rpc.join()
        scrape = await running.scrape()
        if failed := scrape.since(before).value("nmt_request_failures_total"):
            break
    assert failed == 1
    assert scrape.value("nmt_requests_running") == 0
    assert scrape.value("nmt_queue_tokens") == 0


async def test_a_full_queue_refuses_with_a_retry_delay(start_server: Any) -> None:
    async with start_server(max_queue_tokens=16_000) as running:
        async with grpc.aio.insecure_channel(running.address) as channel:
            stub: Any = translation_pb2_grpc.TranslationServiceStub(channel)
            request = pb.TranslateTextRequest(
                contents=["你好。"] * 4, settings=pb.TranslationSettings(options=pb.DecodingOptions(**LONG))
            )
            calls = [stub.TranslateText(request) for _ in range(40)]
            codes = [await call.code() for call in calls]
            trailers = [dict(await call.trailing_metadata()) for call in calls]
        scrape = await running.scrape()
    refused = codes.count(grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert 0 < refused < 40
    assert codes.count(grpc.StatusCode.OK) == 40 - refused
    for code, trailer in zip(codes, trailers, strict=True):
        if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
            assert int(trailer["grpc-retry-pushback-ms"]) > 0
    # Some are refused unread, when no model is known yet.
    assert 0 < scrape.value("nmt_request_failures_total", reason="overloaded") <= refused
    assert scrape.value("grpc_server_handled_total", grpc_code="RESOURCE_EXHAUSTED") == refused


async def test_the_client_retries_after_the_delay_of_the_server(start_server: Any) -> None:
    async with start_server(max_queue_tokens=200) as running, AsyncTranslationClient(running.address) as client:
        results = await asyncio.gather(*(client.translate_one("你好。") for _ in range(40)), return_exceptions=True)
    texts = {result.text for result in results if not isinstance(result, BaseException)}
    errors = [result for result in results if isinstance(result, BaseException)]
    assert len(texts) == 1
    assert all(isinstance(error, OverloadedError) and error.retryable for error in errors)


async def test_a_server_that_is_still_loading_is_unavailable(start_server: Any) -> None:
    async with start_server(load=False) as running, AsyncTranslationClient(running.address) as client:
        with pytest.raises(ServerUnavailableError) as caught:
            await client.translate_one("你好。", timeout=3)
        assert caught.value.code is StatusCode.UNAVAILABLE
        await running.server.load()
        assert (await client.translate_one("你好。")).model == "tiny"
