from __future__ import annotations

import json
from pathlib import Path

from benchmarks.engines.cost import PeakShare, ServerCost
from benchmarks.engines.long_file import FileResult
from benchmarks.engines.measurement import EngineResult
from benchmarks.engines.report import Report, Row, as_json, as_markdown, draw
from benchmarks.engines.served import Batching, ServedResult, ServedRow, medians
from benchmarks.engines.workload import Workload
from benchmarks.harness.loads import LoadResult
from benchmarks.harness.processes import CpuTimes, cpu_times, share_of_others


def figures(factor: float, errors: int = 0) -> LoadResult:
    return LoadResult(
        sentences_per_second=100 * factor,
        p50_ms=10 * factor,
        p95_ms=20 * factor,
        p99_ms=30 * factor,
        requests=50,
        errors=errors,
    )


def whole_report() -> Report:
    workload = Workload(batches=[[[5, 2], [6, 7, 2]]], beam_size=4, max_target_length=20, min_seconds=0)
    ours = EngineResult(seconds=0.1, workers=2, threads=1, shortlist=False, target_ids=[[5], [6, 7]])
    theirs = EngineResult(seconds=0.15, workers=1, threads=2, shortlist=False, target_ids=[[5], [6]])
    results = {"xuanzang": figures(1), "ctranslate2": figures(2)}
    servers = [
        ServerCost(
            model=name,
            start_seconds={"xuanzang": 0.5 + number, "ctranslate2": 0.25},
            resident_megabytes={"xuanzang": 200.0 + number, "ctranslate2": 150.0},
            share_outside_onnxruntime=0.1 + number / 10,
        )
        for number, name in enumerate(("bundled", "base"))
    ]
    return Report(
        engine=[Row(model="base", precision="int8", workload=workload, ours=ours, ctranslate2=theirs)],
        served=ServedResult(
            model="base",
            batching=Batching(workers=2, threads=1, max_batch=32, delay=0.005),
            rows=[
                ServedRow(load="closed", rate=None, results=results),
                ServedRow(load="30%", rate=60, results=results),
            ],
        ),
        file=FileResult(
            model="base",
            lines=10,
            sentences=12,
            workers=2,
            threads=1,
            max_batch=32,
            lines_per_second={"Translator": 90.0, "batch": 75.0, "server": 72.0, "ctranslate2": 60.0},
        ),
        servers=servers,
        peak_shares={name: PeakShare(multiply_adds_per_second=3e11, peak=6e11) for name in ("bundled", "base")},
    )


def test_the_json_has_its_documented_fields() -> None:
    found = json.loads(json.dumps(as_json(whole_report())))
    assert list(found) == ["machine", "engine", "served", "file", "cost"]
    assert found["engine"] == [
        {
            "model": "base",
            "precision": "int8",
            "beam": 4,
            "batch": 2,
            "ours_ms": 100.0,
            "ctranslate2_ms": 150.0,
            "ratio": 1.5,
        }
    ]
    ours = {"sentences_per_second": 100.0, "p50_ms": 10.0, "p95_ms": 20.0, "p99_ms": 30.0}
    theirs = {name: 2 * value for name, value in ours.items()}
    assert found["served"] == [{"load": load, "ours": ours, "ctranslate2": theirs} for load in ("closed", "30%")]
    rates = {"Translator": 90.0, "batch": 75.0, "server": 72.0, "ctranslate2": 60.0}
    ratios = {"Translator_ratio": 1.5, "batch_ratio": 1.25, "server_ratio": 1.2}
    assert found["file"] == {**{f"{way}_lines_per_second": rate for way, rate in rates.items()}, **ratios}
    # Those of the first model, which is served.
    assert found["cost"] == {
        "start_to_first_translation_s": 0.5,
        "rss_mb": 200.0,
        "cpu_share_outside_onnxruntime": 0.1,
        "share_of_int8_peak": 0.5,
    }


def test_unmeasured_parts_are_empty(tmp_path: Path) -> None:
    found = as_json(Report())
    assert (found["engine"], found["served"], found["file"], found["cost"]) == ([], [], {}, {})
    assert as_markdown(Report()).startswith("Machine: ")
    draw(Report(), tmp_path / "bench.svg")
    assert not list(tmp_path.iterdir())


def test_every_table_has_as_many_cells_as_headings() -> None:
    rows = [line for line in as_markdown(whole_report()).splitlines() if line.startswith("|")]
    tables = [rows[:3], rows[3:7], rows[7:10], rows[10:]]
    assert [len(table) for table in tables] == [3, 4, 3, 4]
    for table in tables:
        assert len({row.count("|") for row in table}) == 1


def test_the_chart_names_both_engines(tmp_path: Path) -> None:
    draw(whole_report(), tmp_path / "bench.svg")
    chart = (tmp_path / "bench.svg").read_text(encoding="utf-8")
    assert "xuanzang p50" in chart
    assert "CTranslate2 p95" in chart


def test_the_share_of_others_is_the_busy_time_that_is_not_ours() -> None:
    before, after = CpuTimes(total=100, busy=40, own=10), CpuTimes(total=300, busy=220, own=150)
    assert share_of_others(before, after) == (180 - 140) / 200
    assert share_of_others(before, before._replace(total=101, busy=40.5, own=11)) == 0


def test_cpu_times_grow_with_our_own_work() -> None:
    before = cpu_times()
    while (after := cpu_times()).own == before.own:
        pass
    assert after.total >= before.total
    assert after.busy >= before.busy


def test_medians_are_per_figure_and_errors_add_up() -> None:
    found = medians([figures(1, errors=1), figures(3), figures(2, errors=2)])
    assert found.sentences_per_second == 200
    assert found.p95_ms == 40
    assert (found.requests, found.errors) == (150, 3)
