from __future__ import annotations

from typing import Any

import grpc
import pytest

from xuanzang.server.engine.errors import InvalidInputError, OverloadedError
from xuanzang.translation.v1 import translation_pb2 as pb


async def usage_of(call: Any) -> dict[str, str]:
    """Return what an RPC says that it has used, once it has ended."""
    metadata = {key: value for key, value in await call.trailing_metadata() if key.startswith("x-usage-")}
    return {key.removeprefix("x-usage-"): value for key, value in metadata.items()}


async def test_a_progressive_call_says_what_it_has_used(serve: Any) -> None:
    async with serve() as served:
        call = served.stub.TranslateTextProgressively(pb.TranslateTextProgressivelyRequest(content="abcd"))
        assert [answer async for answer in call]
        assert await usage_of(call) == {"characters": "4", "sentences": "1"}


async def test_a_stream_adds_up_the_texts_that_were_translated(serve: Any) -> None:
    async with serve() as served:
        served.engine.raised["refused"] = InvalidInputError([])
        texts = [pb.StreamTranslateTextRequest(content=text) for text in ("ab", "refused", "cde")]
        call = served.stub.StreamTranslateText(texts)
        assert len([answer async for answer in call]) == 3
        assert await usage_of(call) == {"characters": "5", "sentences": "2"}


async def test_a_refused_call_has_used_nothing(serve: Any) -> None:
    async with serve() as served:
        served.engine.raised["a"] = OverloadedError("busy", retry_after_seconds=1.0)
        call = served.stub.TranslateText(pb.TranslateTextRequest(contents=["a"]))
        with pytest.raises(grpc.aio.AioRpcError):
            await call
        assert await usage_of(call) == {}
