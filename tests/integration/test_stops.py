"""What callers are told by a server that stops at once, whatever their calls are waiting for."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from typing import Any

import grpc
import pytest

from xuanzang.translation.v1 import translation_pb2, translation_pb2_grpc

pb: Any = translation_pb2
CALLS = 48
TEXT = "我有一只猫，你有一条狗。" * 100
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"token_details": True},
    {"content_format": pb.CONTENT_FORMAT_HTML},
    {"return_provenance": True, "return_scores": True},
)


async def code_of(stub: Any, number: int) -> grpc.StatusCode:
    settings = {"source_language_code": "zh", **SETTINGS[number % len(SETTINGS)]}
    request = pb.TranslateTextRequest(contents=[f"{TEXT}{number}"] * 30, settings=settings)
    code: grpc.StatusCode = await stub.TranslateText(request).code()
    return code


@pytest.mark.parametrize(
    ("numbers", "flags"),
    [
        ([signal.SIGQUIT], ()),
        ([signal.SIGTERM, signal.SIGQUIT], ()),
        ([signal.SIGTERM], ("--drain-timeout-seconds=0",)),
    ],
    ids=["quit", "term and quit", "no time"],
)
async def test_calls_that_a_stop_cuts_off_are_unavailable(
    start_process: Any, numbers: list[signal.Signals], flags: tuple[str, ...]
) -> None:
    async with start_process("--max-queue-tokens=1000000000", *flags) as server:
        await server.until("serving")
        async with grpc.aio.insecure_channel(server.address) as channel:
            stub = translation_pb2_grpc.TranslationServiceStub(channel)
            calls = [asyncio.create_task(code_of(stub, number)) for number in range(CALLS)]
            await server.until_metric("nmt_requests_running")
            server.process.send_signal(numbers[0])
            if numbers[0] is signal.SIGTERM:
                draining = await server.until("draining")
                assert (draining["signal"], draining["requests"] > 0) == ("SIGTERM", True)
            for number in numbers[1:]:
                server.process.send_signal(number)
            codes = Counter(await asyncio.gather(*calls))
            assert await server.ended() == 0
    assert codes.keys() <= {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.OK}, codes
    assert codes[grpc.StatusCode.UNAVAILABLE]
    assert server.logged("stopped")[0]["drained"] is False
    assert [line for line in server.events if line["level"] == "error"] == []
