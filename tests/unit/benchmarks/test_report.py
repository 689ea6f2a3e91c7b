from __future__ import annotations

from pathlib import Path

from benchmarks.engines.report import Report, as_json, as_markdown, draw
from benchmarks.engines.served import medians
from benchmarks.harness.loads import LoadResult
from benchmarks.harness.processes import CpuTimes, share_of_others


def figures(factor: float, errors: int = 0) -> LoadResult:
    return LoadResult(
        sentences_per_second=100 * factor,
        p50_ms=10 * factor,
        p95_ms=20 * factor,
        p99_ms=30 * factor,
        requests=50,
        errors=errors,
    )


def test_unmeasured_parts_are_empty(tmp_path: Path) -> None:
    found = as_json(Report())
    assert (found["engine"], found["served"], found["file"], found["cost"]) == ([], [], {}, {})
    assert as_markdown(Report()).startswith("Machine: ")
    draw(Report(), tmp_path / "bench.svg")
    assert not list(tmp_path.iterdir())


def test_the_share_of_others_is_the_busy_time_that_is_not_ours() -> None:
    before, after = CpuTimes(total=100, busy=40, own=10), CpuTimes(total=300, busy=220, own=150)
    assert share_of_others(before, after) == (180 - 140) / 200
    assert share_of_others(before, before._replace(total=101, busy=40.5, own=11)) == 0


def test_medians_are_per_figure_and_errors_add_up() -> None:
    found = medians([figures(1, errors=1), figures(3), figures(2, errors=2)])
    assert found.sentences_per_second == 200
    assert found.p95_ms == 40
    assert (found.requests, found.errors) == (150, 3)
