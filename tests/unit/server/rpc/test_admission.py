from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from xuanzang.server.engine.errors import DrainingError
from xuanzang.server.rpc.admission import Admission

NO_CONTEXT = cast("Any", None)
"""Admission looks at the context of those alone whom it lets in."""


async def test_those_who_come_after_the_end_are_held_until_they_are_released() -> None:
    admission = Admission(max_concurrent_rpcs=1)
    admission.open()
    admission.close()
    assert admission.hold() == 0
    callers = [asyncio.create_task(admission.enter(NO_CONTEXT)) for _ in range(3)]
    await asyncio.sleep(0)
    assert admission.hold() == 3
    assert not any(caller.done() for caller in callers)
    admission.release()
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [DrainingError] * 3


async def test_those_who_were_refused_before_the_hold_are_counted_too() -> None:
    admission = Admission(max_concurrent_rpcs=1)
    admission.close()
    with pytest.raises(DrainingError):
        await admission.enter(NO_CONTEXT)
    assert admission.hold() == 1
