from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from xuanzang.server.observation.rpc_log import RpcLog


@pytest.mark.parametrize("what", ["rpc", "text"])
async def test_a_flood_of_refusals_is_ten_lines_and_their_number(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    timers: list[Any] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda seconds, function: timers.append(function))
    log = RpcLog(what)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            for _ in range(500):
                log.write("/a.Service/Do", "RESOURCE_EXHAUSTED", 0.1)
            log.write("/a.Service/Do", "INTERNAL", 0.1)
            assert len(timers) == 1
            timers.pop()()
    codes = [(record.message, record.code, getattr(record, f"{what}s", 1)) for record in caplog.records]  # type: ignore[attr-defined]
    refused = (what, "RESOURCE_EXHAUSTED", 1)
    second = [*[refused] * 10, (what, "INTERNAL", 1), (f"more {what}s", "RESOURCE_EXHAUSTED", 490)]
    assert codes == second * 2
