from __future__ import annotations

import asyncio
from typing import Any, cast

import grpc
import pytest

from xuanzang.server.engine.errors import DrainingError
from xuanzang.server.rpc.admission import RpcGate
from xuanzang.server.rpc.limits import RpcLimits

NO_CONTEXT = cast("Any", None)
"""Stands for the context of RPCs that are refused, which the gate does not read."""


async def test_refusals_of_a_closed_gate_wait_until_they_are_released() -> None:
    gate = RpcGate(RpcLimits(max_concurrent_rpcs=1))
    gate.open()
    gate.close()
    assert gate.hold() == 0
    callers = [asyncio.create_task(gate.enter(NO_CONTEXT, is_stream=False)) for _ in range(3)]
    await asyncio.sleep(0)
    assert gate.hold() == 3
    assert not any(caller.done() for caller in callers)
    gate.release()
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [DrainingError] * 3


async def test_refusals_before_the_hold_are_counted_too() -> None:
    gate = RpcGate(RpcLimits(max_concurrent_rpcs=1))
    gate.close()
    with pytest.raises(DrainingError):
        await gate.enter(NO_CONTEXT, is_stream=False)
    assert gate.hold() == 1


async def test_rpcs_beyond_the_limit_are_refused_with_a_retry_delay(serve: Any) -> None:
    async with serve(max_concurrent_rpcs=1) as served:
        held = served.engine.hold("a")
        first = asyncio.ensure_future(served.translated("a"))
        await served.engine.until(served.engine.running, {"a"})
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.translated("b")
        held.set()
        assert (await first) == "A"
        await served.rpc.join()
        assert await served.translated("b") == "B"
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert dict(caught.value.trailing_metadata() or ())["grpc-retry-pushback-ms"] == "1000"
