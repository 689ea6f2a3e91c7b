from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from xuanzang.server.metric_series import Counter
from xuanzang.server.observation.callers import CallerFacts
from xuanzang.server.observation.observation import AccessLog
from xuanzang.server.observation.rpc_record import RpcRecord

CALLER = CallerFacts("key", "nightly", "private")


@pytest.fixture
def dropped() -> Counter:
    return Counter()


def count_of(counter: Counter) -> float:
    return counter.value


def line(request_id: str) -> dict[str, object]:
    record = RpcRecord(request_id=request_id, method="TranslateText", caller=CALLER)
    record.end("OK", 0, 0.5)
    return record.facts()


def test_lines_come_in_the_order_of_the_rpcs(tmp_path: Path, dropped: Counter) -> None:
    log = AccessLog(str(tmp_path / "log"), dropped=dropped)
    log.write([line("0"), line("1")])
    log.write([line("2")])
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["request_id"] for line in lines] == ["0", "1", "2"]
    assert lines[0]["caller_key"] == "nightly"
    assert count_of(dropped) == 0


def test_only_owner_and_group_may_read_the_log(tmp_path: Path, dropped: Counter) -> None:
    AccessLog(str(tmp_path / "log"), dropped=dropped)
    assert (tmp_path / "log").stat().st_mode & 0o777 & ~0o640 == 0


def test_standard_output_may_be_the_log(dropped: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written))
    AccessLog("-", dropped=dropped).write([line("7")])
    assert json.loads(written.getvalue())["request_id"] == "7"


def test_lines_that_cannot_be_written_are_counted_and_the_next_ones_are_written(
    tmp_path: Path, dropped: Counter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = AccessLog(str(tmp_path / "log"), dropped=dropped)
    append, faults = log._append, [OSError("no space left on device")] * 2

    def append_later(data: bytes) -> None:
        if faults:
            raise faults.pop()
        append(data)

    monkeypatch.setattr(log, "_append", append_later)
    for number in range(3):
        log.write([line(str(number))])
    assert json.loads((tmp_path / "log").read_text())["request_id"] == "2"
    assert count_of(dropped) == 2
    assert [line.msg for line in caplog.records] == ["the access log cannot be written"]


def test_a_log_that_is_moved_away_is_begun_anew(tmp_path: Path, dropped: Counter) -> None:
    log = AccessLog(str(tmp_path / "log"), dropped=dropped)
    log.write([line("1")])
    (tmp_path / "log").rename(tmp_path / "log.1")
    log.write([line("2")])
    found = [json.loads((tmp_path / name).read_text())["request_id"] for name in ("log.1", "log")]
    assert found == ["1", "2"]
