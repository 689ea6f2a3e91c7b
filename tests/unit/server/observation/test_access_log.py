from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter

from xuanzang.server.observation import access_log
from xuanzang.server.observation.access_log import AccessLog
from xuanzang.server.observation.callers import CallerFacts
from xuanzang.server.observation.rpc_record import RpcRecord

CALLER = CallerFacts("key", "nightly", "private")


@pytest.fixture
def dropped() -> Counter:
    return Counter("dropped", "Lines.", registry=CollectorRegistry())


def count_of(counter: Counter) -> float:
    [family] = counter.collect()
    return family.samples[0].value


def record(request_id: str = "7") -> RpcRecord:
    return RpcRecord(request_id=request_id, method="TranslateText", caller=CALLER)


async def test_lines_come_in_the_order_of_the_rpcs(tmp_path: Path, dropped: Counter) -> None:
    log = AccessLog(str(tmp_path / "log"), dropped=dropped)
    for number in range(100):
        log.add(record(str(number)), code="OK", seconds=0.5)
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["request_id"] for line in lines] == [str(number) for number in range(100)]
    assert lines[0]["caller_key"] == "nightly"
    assert count_of(dropped) == 0


async def test_only_owner_and_group_may_read_the_log(tmp_path: Path, dropped: Counter) -> None:
    AccessLog(str(tmp_path / "log"), dropped=dropped).close()
    assert (tmp_path / "log").stat().st_mode & 0o777 & ~0o640 == 0


async def test_standard_output_may_be_the_log(dropped: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written))
    log = AccessLog("-", dropped=dropped)
    log.add_unread("TranslateText", code="RESOURCE_EXHAUSTED", rpcs=40)
    log.close()
    line = json.loads(written.getvalue())
    line.pop("time")
    assert line == {"method": "TranslateText", "code": "RESOURCE_EXHAUSTED", "unread_rpcs": 40}


async def test_lines_that_a_slow_reader_does_not_take_are_lost_and_counted(
    tmp_path: Path, dropped: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_log, "_MAX_WAITING_LINES", 3)
    os.mkfifo(tmp_path / "log")
    # Open before the log is, so that the log finds a reader each time it opens the pipe.
    with os.fdopen(os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        log = AccessLog(str(tmp_path / "log"), dropped=dropped)
        for _ in range(1000):
            log.add(record(), code="OK", seconds=0.5)
        log.close()
        assert len(reader.readlines()) == 3
    assert count_of(dropped) == 997


async def test_lines_that_cannot_be_written_are_counted_and_the_next_ones_are_written(
    tmp_path: Path, dropped: Counter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = AccessLog(str(tmp_path / "log"), dropped=dropped)
    write, faults = log._write, [OSError("no space left on device")] * 2

    def write_later(data: bytes) -> None:
        if faults:
            raise faults.pop()
        write(data)

    monkeypatch.setattr(log, "_write", write_later)
    for number in range(3):
        log.add(record(str(number)), code="OK", seconds=0.5)
        log._flush()
    log.close()
    assert json.loads((tmp_path / "log").read_text())["request_id"] == "2"
    assert count_of(dropped) == 2
    assert [line.msg for line in caplog.records] == ["the access log cannot be written"]


def test_a_log_that_is_moved_away_is_begun_anew(tmp_path: Path, dropped: Counter) -> None:
    log = AccessLog(str(tmp_path / "log"), dropped=dropped)
    log._write(b"first\n")
    (tmp_path / "log").rename(tmp_path / "log.1")
    log._write(b"second\n")
    log.close()
    assert (tmp_path / "log.1").read_bytes() == b"first\n"
    assert (tmp_path / "log").read_bytes() == b"second\n"
