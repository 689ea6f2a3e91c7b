from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from xuanzang.server.engine.errors import DrainingError
from xuanzang.server.rpc.gate import RpcGate

NO_CONTEXT = cast("Any", None)
"""Stands for the context of RPCs that are refused, which the gate does not read."""


async def test_refusals_of_a_closed_gate_wait_until_they_are_released() -> None:
    gate = RpcGate(max_concurrent_rpcs=1)
    gate.open()
    gate.close()
    assert gate.hold() == 0
    callers = [asyncio.create_task(gate.enter(NO_CONTEXT)) for _ in range(3)]
    await asyncio.sleep(0)
    assert gate.hold() == 3
    assert not any(caller.done() for caller in callers)
    gate.release()
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [DrainingError] * 3


async def test_refusals_before_the_hold_are_counted_too() -> None:
    gate = RpcGate(max_concurrent_rpcs=1)
    gate.close()
    with pytest.raises(DrainingError):
        await gate.enter(NO_CONTEXT)
    assert gate.hold() == 1
