"""Dashboards and rules on a real Prometheus that scrapes a real server under calls: every panel shows something."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import prometheus_server
import pytest
from observed import DASHBOARDS, RULES, Target, targets, variables
from observed_service import Check, called_service
from prometheus_server import Prometheus

pytestmark = pytest.mark.e2e

SECONDS = 240.0
"""Until all panels of a dashboard have shown something; they take ten to twenty where nothing else runs."""
PER_DASHBOARD = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A Prometheus that scrapes a server under calls."""

    prometheus: Prometheus
    check: Check

    def wait(self, missing: Callable[[], object]) -> None:
        """Ask until nothing is missing."""
        until = time.monotonic() + SECONDS
        while found := missing():
            self.check()
            assert time.monotonic() < until, found
            time.sleep(0.5)


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    program = prometheus_server.program()
    if program is None:
        pytest.skip("NOT TESTED: dashboards with data: there is no prometheus: apt-get install prometheus")
    data = tmp_path_factory.mktemp("prometheus")
    with (
        called_service(tmp_path_factory.mktemp("service")) as (service, check),
        Prometheus(program, service.metrics, data) as prometheus,
    ):
        yield Observed(prometheus=prometheus, check=check)


def shows(target: Target, series: list[dict[str, Any]]) -> bool:
    """Return whether there are numbers, and the labels by which the legend calls them."""
    labels = set(re.findall(r"{{(\w+)}}", target.legend))
    return any(math.isfinite(float(each["value"][1])) and labels <= each["metric"].keys() for each in series)


@PER_DASHBOARD
def test_every_panel_shows_numbers_of_a_server_under_calls(dashboard: Path, observed: Observed) -> None:
    empty = targets(dashboard)

    def missing() -> list[str]:
        empty[:] = [target for target in empty if not shows(target, observed.prometheus.query(target.expr))]
        return [f"{target.panel}: {target.expr}" for target in empty]

    observed.wait(missing)


@PER_DASHBOARD
def test_every_variable_of_a_dashboard_has_values(dashboard: Path, observed: Observed) -> None:
    asked = variables(dashboard)
    observed.wait(lambda: [name for name, series, label in asked if not observed.prometheus.values(label, series)])


def test_prometheus_evaluates_every_rule_without_an_error(observed: Observed) -> None:
    observed.wait(lambda: [rule["name"] for rule in rules(observed.prometheus) if rule["health"] == "unknown"])
    assert [rule["lastError"] for rule in rules(observed.prometheus) if rule["health"] != "ok"] == []
    assert len(rules(observed.prometheus)) == len(RULES)


def rules(prometheus: Prometheus) -> list[dict[str, Any]]:
    return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
