"""A clock that is set forward or back must move no deadline: what measures time reads monotonic clocks only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WALL_CLOCKS = {"time.time", "time.time_ns", "time.localtime", "time.gmtime", "time.ctime", "time.clock_gettime"} | {
    f"{owner}.{method}" for owner in ("datetime", "datetime.datetime", "date") for method in ("now", "utcnow", "today")
}
CALENDAR = {
    "keys.py",
    "loaded.py",
    "memory.py",
    "metric_series.py",
    "observation.py",
    "packed_weights.py",
    "repository.py",
    "rpc_record.py",
    "spans.py",
    "tls.py",
    "usage.py",
}
"""Modules that know dates: certificates expire by the calendar, keys say when they were made, files of weights and
remembered translations when they were last used, files of bundles how long they had been left alone, models since when
they are loaded, and exemplars of metrics, lines of the access log and spans are dated."""


def wall_clocks(source: str) -> Iterator[str]:
    """Yield the wall clocks that a module mentions, called or handed over, by whatever name they are imported."""
    tree = ast.parse(source)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            first, dot, rest = ast.unparse(node).partition(".")
            name = names.get(first, first) + dot + rest
            if name in WALL_CLOCKS or name.removeprefix("datetime.") in WALL_CLOCKS:
                yield name


@pytest.mark.parametrize("room", ["server", "client"])
def test_only_what_is_dated_knows_the_calendar(room: str) -> None:
    modules = sorted((ROOT / room / "src").rglob("*.py"))
    assert len(modules) > 10
    read = {path.name for path in modules if list(wall_clocks(path.read_text(encoding="utf-8")))}
    assert read <= CALENDAR
