"""A caller of single sentences with deadlines, beside others who ask for all that they may."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2_grpc

CAT = "我有一只猫。"
LEGAL = "甲方应当在本合同签订之日起三十日内，按照附件一所列的金额和方式，向乙方支付全部款项。"
LOCAL = (("grpc.use_local_subchannel_pool", 1),)
DEADLINE = 5.0
"""Seconds, or on a slow machine twice the time of an attacker's call."""
CALLS = 4
AT_ONCE = 4
"""Calls that an attacker has in progress."""

Options = pb.DecodingOptions
ATTACKS = {
    "forced sentences": ([CAT] * 64, Options(min_target_length=64, beam_size=4)),
    "wide beams": ([LEGAL] * 64, Options(beam_size=16, max_target_length=512, repetition_penalty=0.1)),
    "draws": ([CAT] * 64, Options(num_hypotheses=16, min_target_length=60, sampling=pb.SamplingOptions(temperature=2))),
    "long texts": ([(LEGAL * 130)[:5000]], Options()),
    "what nobody sees": (["\u200f" * 20_000, "\u0301" * 20_000, ("a" + "\u0301" * 150) * 60], Options()),
}


def _request(texts: list[str], options: pb.DecodingOptions, **settings: Any) -> pb.TranslateTextRequest:
    settings = {"options": options, "source_language_code": "zh", **settings}
    return pb.TranslateTextRequest(contents=texts, settings=pb.TranslationSettings(**settings))


@asynccontextmanager
async def _attacking(port: int, request: pb.TranslateTextRequest) -> AsyncIterator[tuple[Counter[str], float]]:
    """Make calls of another caller, some at a time, from the first answer on; count their statuses.

    The other value is the time until that answer in seconds.
    """
    codes: Counter[str] = Counter()
    answered, began = asyncio.Event(), time.monotonic()

    async def repeat(stub: Any) -> None:
        while True:
            code = await stub.TranslateText(request, metadata=(("x-client-id", "attacker"),)).code()
            codes[code.name] += 1
            if code is grpc.StatusCode.OK:
                answered.set()

    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", LOCAL) as channel:
        stub: Any = translation_pb2_grpc.TranslationServiceStub(channel)
        tasks = [asyncio.create_task(repeat(stub)) for _ in range(AT_ONCE)]
        try:
            # From now on the server knows how long such work takes.
            await answered.wait()
            yield codes, time.monotonic() - began
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks)


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
async def test_single_sentences_get_their_place_beside_a_caller_who_takes_all_it_may(attack: Any, name: str) -> None:
    single = _request([CAT], Options(max_target_length=8), return_provenance=True)
    async with attack() as server:
        async with _attacking(server.port, _request(*ATTACKS[name])) as (codes, seconds):
            deadline = max(DEADLINE, 2 * seconds)
            answers = [
                await server.stub.TranslateText(single, timeout=deadline, metadata=(("x-client-id", "single"),))
                for _ in range(CALLS)
            ]
        for answer in answers:
            [sentence] = answer.translations[0].provenance.sentences
            # Of the other caller its steps have no more sentences than make none of them long.
            assert sentence.batch_sentences <= 5
        assert codes.keys() <= {"OK", "RESOURCE_EXHAUSTED"}
        for reason in ("deadline", "queue_timeout"):
            value = await asyncio.to_thread(server.value, "nmt_request_failures_total", reason=reason)
            assert value == 0, reason
        await server.check()
