from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from pathlib import Path

import pytest

from xuanzang.loadtest import loops
from xuanzang.loadtest.__main__ import main
from xuanzang.loadtest.load import Load, Mix, Record, Workload, run_load
from xuanzang.loadtest.loops import poisson_arrivals
from xuanzang.loadtest.report import figures, table, write_histogram

LOAD = Load(rate=10.0, seconds=10.0, warm_up_seconds=2.0)


def workload(texts: str = "一", *sizes: str, seed: int = 0) -> Workload:
    return Workload(list(texts), Mix.parse(sizes or ["1"]), seed)


async def ok(_texts: list[str], _name: int) -> str:
    await asyncio.sleep(0)
    return "OK"


def record(due: float = 3.0, latency: float = 0.1, code: str = "OK", characters: int = 10, late: float = 0.0) -> Record:
    return Record(due=due, sent=due + late, ended=due + latency, code=code, texts=1, characters=characters)


def test_sizes_come_as_often_as_their_weights_say() -> None:
    drawn = workload("一二", "1:3", "8", seed=1)
    sizes = Counter(len(drawn.request()) for _ in range(4000))
    assert sizes.keys() == {1, 8}
    assert sizes[1] / 4000 == pytest.approx(0.75, abs=0.03)


def test_sizes_that_make_no_sense_are_refused() -> None:
    for size in ("0", "x", "1:-1", "1:0", "1:inf", "2:1:1"):
        with pytest.raises(ValueError, match="texts"):
            Mix.parse([size])


def test_every_text_is_sent_once_before_any_is_repeated() -> None:
    requests, drawn = workload("0123456789", "1", "4", seed=1), ""
    while len(drawn) < 100:
        drawn += "".join(requests.request())
    assert all(sorted(drawn[start : start + 10]) == list("0123456789") for start in range(0, 100, 10))


def test_arrivals_are_a_poisson_process_and_the_same_for_the_same_seed() -> None:
    first, again, other = (list(poisson_arrivals(50, 200, random.Random(seed))) for seed in (1, 1, 2))
    assert first == again != other
    assert first == sorted(first)
    assert first[-1] < 200
    gaps = [late - early for early, late in zip([0.0, *first], first, strict=False)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(0.02, rel=0.05)
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert deviation == pytest.approx(mean, rel=0.05)  # as only exponential gaps have it


@pytest.mark.parametrize(("callers", "names"), [(6, 3), (3, 1), (2, 5)])
async def test_each_name_has_an_equal_part_of_the_requests_in_progress(callers: int, names: int) -> None:
    running, most, sent = Counter[int](), Counter[int](), Counter[int]()

    async def send(texts: list[str], name: int) -> str:
        running[name] += 1
        most[name] = max(most[name], running[name])
        await asyncio.sleep(0)
        running[name] -= 1
        sent[len(texts)] += 1
        return "OK"

    load = Load(callers=callers, names=names, seconds=0.01, warm_up_seconds=0)
    records = await run_load(load, Workload(["一二"], Mix.parse(["2"]), 0), send, lambda: None)
    assert most == dict.fromkeys(range(names), -(-callers // names))
    assert sent == {2: len(records)}
    assert {(each.texts, each.characters) for each in records} == {(2, 4)}


async def test_names_of_an_open_loop_take_turns() -> None:
    sent: list[int] = []

    async def send(_texts: list[str], name: int) -> str:
        sent.append(name)
        return "OK"

    load = Load(rate=1000, names=4, seconds=0.05, warm_up_seconds=0)
    await run_load(load, workload(), send, lambda: None)
    assert sent == [number % 4 for number in range(len(sent))]


async def test_a_closed_loop_goes_on_until_there_are_three_answers_a_caller() -> None:
    records = await run_load(Load(callers=5, seconds=0, warm_up_seconds=0), workload(), ok, lambda: None)
    assert 15 <= len(records) < 20


def test_the_rate_is_that_of_the_answers_between_warm_up_and_end() -> None:
    answered = [record(due=due, latency=0.5) for due in (1.6, 2.0, 5.0, 9.4, 9.6)]
    assert figures(LOAD, answered, [20]).texts_per_second == pytest.approx(4 / 8), "the last comes after the end"
    closed = Load(callers=2, seconds=4.0, warm_up_seconds=2.0)
    later = [record(due=due) for due in (3.0, 9.0, 12.0)]
    assert figures(closed, later, [20]).texts_per_second == pytest.approx(2 / 10), "it has gone on for 12 seconds"


@pytest.mark.parametrize("tick", [0.0, 0.001])
async def test_an_open_loop_that_is_behind_gets_no_further_behind(monkeypatch: pytest.MonkeyPatch, tick: float) -> None:
    now = 0.0

    def slow_clock() -> float:
        """Return the time of a clock that advances by five milliseconds whenever it is read."""
        nonlocal now
        now += 0.005
        return now

    monkeypatch.setattr(loops, "perf_counter", slow_clock)
    late = [now - due async for due in loops.due_times(2000.0, 1.0, random.Random(1), tick=tick)]
    assert len(late) > 1800
    assert 0 <= min(late) <= max(late) < 0.02


async def test_latency_counts_from_the_time_at_which_a_request_was_due() -> None:
    records = await run_load(Load(rate=2000, seconds=0.05, warm_up_seconds=0), workload(), ok, lambda: None)
    due = [each.due for each in sorted(records, key=lambda each: each.due)]
    # From the start of the loop, which is just after that of the load.
    expected = list(poisson_arrivals(2000, 0.05, random.Random(0)))
    assert [each - due[0] for each in due] == pytest.approx([each - expected[0] for each in expected], abs=1e-9)
    assert all(each.due <= each.sent <= each.ended for each in records)


def test_percentiles_are_those_of_the_sorted_latencies() -> None:
    generator = random.Random(0)
    latencies = [generator.expovariate(10) for _ in range(5000)]
    found = figures(LOAD, [record(latency=latency) for latency in latencies], [20, 60]).latency_ms
    ordered = sorted(latencies)
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)):
        assert found[name] == pytest.approx(1000 * ordered[math.ceil(share * 5000) - 1], rel=2e-3)
    assert found["max"] == pytest.approx(1000 * ordered[-1], rel=2e-3)


def test_what_was_due_in_the_warm_up_does_not_count() -> None:
    result = figures(LOAD, [record(due=1.0, latency=5.0), record(due=2.0), record(due=9.9)], [20])
    assert result.requests == 2
    assert result.latency_ms["max"] == pytest.approx(100, rel=2e-3)
    with pytest.raises(ValueError, match="warm-up"):
        figures(LOAD, [record(due=1.0)], [20])


def test_codes_lengths_and_late_requests_are_counted_apart() -> None:
    records = [
        record(characters=20),
        record(characters=21, latency=0.4),
        record(characters=61),
        record(code="RESOURCE_EXHAUSTED", latency=0.001),
        record(code="DEADLINE_EXCEEDED", latency=9),
        record(code="UNAVAILABLE", late=0.02),
    ]
    result = figures(LOAD, records, [20, 60])
    assert result.codes == {"OK": 3, "RESOURCE_EXHAUSTED": 1, "DEADLINE_EXCEEDED": 1, "UNAVAILABLE": 1}
    assert {name: each["requests"] for name, each in result.by_length.items()} == {"1-20": 1, "21-60": 1, "over 60": 1}
    assert result.by_length["21-60"]["p50"] == pytest.approx(400, rel=2e-3)
    assert result.late_share == pytest.approx(1 / 6)
    assert table([result]).splitlines()[1].split()[:6] == ["10/s", "6", "3", "1", "1", "1"]


def test_the_histogram_file_ends_with_its_maximum(tmp_path: Path) -> None:
    write_histogram(tmp_path / "a.hgrm", [record(latency=latency) for latency in (0.1, 0.2, 0.4)])
    lines = (tmp_path / "a.hgrm").read_text().splitlines()
    values = [float(line.split()[0]) for line in lines[1:] if line and not line.startswith("#") and "Value" not in line]
    assert values[-1] == pytest.approx(400, rel=2e-3)


@pytest.mark.parametrize(
    ("content", "flags", "message"),
    [
        ("你好。\n", "", "--rate"),
        ("你好。\n", "--rate 0", "above 0"),
        ("你好。\n", "--rate 1 --warm-up 30", "--warm-up"),
        ("你好。\n", "--rate 1 --texts-per-request x", "texts"),
        ("\n \n", "--rate 1", "has no text"),
    ],
)
def test_wrong_arguments_and_a_file_without_texts_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, flags: str, message: str
) -> None:
    (file := tmp_path / "texts.txt").write_text(content, encoding="utf-8")
    assert main(["loadtest", str(file), *flags.split()]) == 2
    assert message in capsys.readouterr().err
