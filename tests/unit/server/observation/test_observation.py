from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from xuanzang.server.engine.calls.record import CallRecord, SearchRecord
from xuanzang.server.engine.scheduling.request import SentenceTimeline
from xuanzang.server.metric_series import Counter
from xuanzang.server.observation import observation as observation_module
from xuanzang.server.observation.callers import CallerFacts, address_class, sender_of
from xuanzang.server.observation.observation import AccessLog, Observation
from xuanzang.server.observation.rpc_log import RpcLog
from xuanzang.server.observation.rpc_record import RpcRecord

CALLER = CallerFacts("key", "nightly", "private")


@pytest.fixture
def dropped() -> Counter:
    return Counter()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def observation(log: Path, dropped: Counter) -> Observation:
    return Observation(AccessLog(str(log), dropped=dropped), dropped=dropped)


def ended(*calls: CallRecord, request_id: str = "7") -> RpcRecord:
    record = RpcRecord(request_id=request_id, method="TranslateText", caller=CALLER)
    for call in calls:
        record.call_ended(call)
    return record


def call(sentences: int, *, began_at: float = 0.0) -> CallRecord:
    """Return the record of a call, each of whose times is a second longer than the one before."""
    times = (began_at + 1, began_at + 3, began_at + 6, began_at + 10)
    queued, taken, encoded, finished = times
    timeline = SentenceTimeline(
        queued_at=queued, taken_at=taken, encoded_at=encoded, finished_at=finished, worker=0, batch_size=1, steps=5
    )
    record = CallRecord(
        model="zh-en", version=2, texts=1, characters=9, began_at=began_at, tokenized_at=queued, sentences=sentences
    )
    record.source_tokens, record.target_tokens = 4, 5
    record.searches.append(SearchRecord(queued, finished, sentences, [timeline] * sentences))
    return record


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize(("calls", "sentences"), [(1, 1), (3, 2), (100, 1), (2, 100)])
async def test_a_line_sums_up_calls_of_its_rpc(observation: Observation, log: Path, calls: int, sentences: int) -> None:
    record = ended(*(call(sentences, began_at=float(number)) for number in range(calls)))
    observation.end(record, "OK", 0, 0.5)
    observation.close()
    [line] = lines_of(log)
    sums = [line[name] for name in ("texts", "characters", "sentences", "source_tokens", "target_tokens")]
    assert sums == [calls, 9 * calls, sentences * calls, 4 * calls, 5 * calls]
    times = [line[f"{name}_seconds"] for name in ("tokenize", "queue", "encode", "decode")]
    assert times == [1, 2, 3, 4]
    assert line["caller_key"] == "nightly"
    assert (line["model"], line["version"], line["code"], line["seconds"]) == ("zh-en", 2, "OK", 0.5)


async def test_rpcs_come_in_the_order_of_their_ends_and_those_refused_unread_share_a_line(
    observation: Observation, log: Path, dropped: Counter
) -> None:
    for number in range(100):
        observation.end(ended(request_id=str(number)), "OK", 0, 0.5)
    observation.end_unread("TranslateText", "RESOURCE_EXHAUSTED", 40, reason="queue")
    observation.close()
    *lines, unread = lines_of(log)
    assert [line["request_id"] for line in lines] == [str(number) for number in range(100)]
    assert unread.pop("time")
    assert unread == {"method": "TranslateText", "code": "RESOURCE_EXHAUSTED", "reason": "queue", "unread_rpcs": 40}
    assert dropped.value == 0


async def test_rpcs_lost_to_a_slow_reader_are_counted(
    tmp_path: Path, dropped: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation_module, "_MAX_WAITING", 3)
    os.mkfifo(tmp_path / "log")
    # Open before the log is, so that the log finds a reader each time it opens the pipe.
    with os.fdopen(os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        observation = Observation(AccessLog(str(tmp_path / "log"), dropped=dropped), dropped=dropped)
        for _ in range(1000):
            observation.end(ended(), "OK", 0, 0.5)
        observation.close()
        assert len(reader.readlines()) == 3
    assert dropped.value == 997


async def test_one_fault_does_not_end_the_recording(observation: Observation, log: Path, caplog: Any) -> None:
    broken = ended()
    broken.fields = None  # type: ignore[assignment]
    for each in (broken, ended()):
        observation.end(each, "OK", 0, 0.5)
        observation._hand_over()
    observation.close()
    assert len(lines_of(log)) == 1
    assert [line.msg for line in caplog.records] == ["ended RPCs could not be recorded"]


def line(request_id: str) -> dict[str, object]:
    record = RpcRecord(request_id=request_id, method="TranslateText", caller=CALLER)
    record.end("OK", 0, 0.5)
    return record.facts()


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
    assert dropped.value == 2
    assert [line.msg for line in caplog.records] == ["the access log cannot be written"]


def test_a_log_that_is_moved_away_is_begun_anew(tmp_path: Path, dropped: Counter) -> None:
    log = AccessLog(str(tmp_path / "log"), dropped=dropped)
    log.write([line("1")])
    (tmp_path / "log").rename(tmp_path / "log.1")
    log.write([line("2")])
    found = [json.loads((tmp_path / name).read_text())["request_id"] for name in ("log.1", "log")]
    assert found == ["1", "2"]


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


@pytest.mark.parametrize(
    ("peer", "expected", "network"),
    [
        ("ipv4:127.0.0.1:50051", "loopback", "ipv4:127.0.0.1"),
        ("ipv6:%5B::1%5D:50051", "loopback", "::/64"),
        ("ipv6:[::1]:50051", "loopback", "::/64"),
        ("ipv4:10.1.2.3:1", "private", "ipv4:10.1.2.3"),
        ("ipv6:%5Bfd00::1%5D:2", "private", "fd00::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:2", "private", None),
        ("ipv4:8.8.8.8:53", "public", "ipv4:8.8.8.8"),
        ("ipv6:%5B2001:4860:1:2:3:4:5:6%5D:53", "public", "2001:4860:1:2::/64"),
        ("unix:/run/socket", "unix", None),
        ("unix:", "unix", None),
        ("", "unknown", None),
        ("nonsense", "unknown", None),
    ],
)
def test_peers_are_known_by_network_and_class_of_address(peer: str, expected: str, network: str | None) -> None:
    sender = sender_of(peer)
    assert address_class(sender.host) == expected
    assert network in {None, sender.network}
