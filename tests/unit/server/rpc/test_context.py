from __future__ import annotations

import logging
from typing import Any

import grpc
import pytest

from xuanzang.server.engine.types import CallerId
from xuanzang.translation.v1 import translation_pb2 as pb

NAMED = (("x-client-id", "nightly"),)


async def call_every_way(served: Any, metadata: Any = ()) -> None:
    await served.stub.TranslateText(pb.TranslateTextRequest(contents=["a"]), metadata=metadata)
    for request, rpc in (
        (pb.TranslateTextProgressivelyRequest(content="a"), served.stub.TranslateTextProgressively),
        (iter([pb.StreamTranslateTextRequest(content="a")] * 2), served.stub.StreamTranslateText),
    ):
        assert [answer async for answer in rpc(request, metadata=metadata)]
    await served.rpc.join()


ADDRESS = CallerId("ipv4:127.0.0.1")


@pytest.mark.parametrize(("metadata", "name"), [((), ""), ((("x-client-id", ""),), ""), (NAMED, "nightly")])
async def test_a_name_counts_within_the_address_of_its_caller_and_is_never_logged(
    serve: Any, caplog: pytest.LogCaptureFixture, metadata: Any, name: str
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with serve(trusted_proxies="10.0.0.0/8") as served:
            await call_every_way(served, metadata)
    assert served.engine.asked_for("caller") == [ADDRESS._replace(name=name)] * 4
    assert not any("nightly" in str(vars(record)) for record in caplog.records if record.name.startswith("xuanzang"))


async def test_a_trusted_proxy_names_callers_that_have_shares_of_their_own(serve: Any) -> None:
    async with serve(trusted_proxies="10.0.0.0/8,127.0.0.1") as served:
        await call_every_way(served, NAMED)
        await call_every_way(served, (("x-client-id", "other"),))
        await call_every_way(served)
    shares = {caller.share for caller in served.engine.asked_for("caller")}
    assert len(shares) == 3
    assert {caller.name for caller in served.engine.asked_for("caller")} == {""}


async def test_a_name_that_is_too_long_is_refused(serve: Any) -> None:
    async with serve() as served:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call_every_way(served, (("x-client-id", "x" * 129),))
        await call_every_way(served, (("x-client-id", "x" * 128),))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "x-client-id: must have at most 128 characters, has 129"
