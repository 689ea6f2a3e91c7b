from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from xuanzang.loadtest.__main__ import main


async def load(tmp_path: Path, *flags: str) -> tuple[int, list[dict[str, Any]]]:
    (texts := tmp_path / "texts.txt").write_text("我有一只猫。\n你有十只狗。\n", encoding="utf-8")
    arguments = [str(texts), "--seconds", "1", "--warm-up", "0", "--json", str(tmp_path / "figures.json"), *flags]
    code = await asyncio.to_thread(main, ["loadtest", *arguments])
    return code, json.loads((tmp_path / "figures.json").read_text())


async def test_open_and_closed_loads_are_measured(running: Any, tmp_path: Path, capsys: Any) -> None:
    before = await running.scrape()
    flags = ("--address", running.address, "--rate", "20", "--callers", "2", "--texts-per-request", "1", "3")
    code, [opened, closed] = await load(tmp_path, *flags, "--histogram", str(tmp_path / "latency.hgrm"))
    assert code == 0
    assert opened["codes"] == {"OK": opened["requests"]}
    assert closed["codes"] == {"OK": closed["requests"]}
    assert "20/s" in capsys.readouterr().out
    assert all((tmp_path / f"latency-{number}.hgrm").stat().st_size for number in (1, 2))
    counted = (await running.scrape()).since(before)
    served = counted.value("grpc_server_handled_total", grpc_code="OK", grpc_method="TranslateText")
    assert served == opened["requests"] + closed["requests"]


async def test_calls_that_fail_are_counted_and_not_retried(running: Any, tmp_path: Path) -> None:
    before = await running.scrape()
    code, [figures] = await load(tmp_path, "--address", running.address, "--rate", "20", "--model", "missing")
    assert (code, figures["codes"], figures["latency_ms"]) == (1, {"NOT_FOUND": figures["requests"]}, {})
    counted = (await running.scrape()).since(before)
    assert counted.value("grpc_server_handled_total", grpc_code="NOT_FOUND") == figures["requests"]
