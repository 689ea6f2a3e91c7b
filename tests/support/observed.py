"""The rules and dashboards of deploy/, and what they ask for that no server has."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.samples import Sample
from promql import grouping_labels, selectors

ROOT = Path(__file__).parents[2]
DASHBOARDS = sorted((ROOT / "deploy/grafana/dashboards").glob("*.json"))
OF_PROMETHEUS = {"up", "ALERTS"}
OF_THE_SCRAPE = {"job", "instance"}


def read_rules() -> list[dict[str, Any]]:
    files = sorted((ROOT / "deploy/prometheus/rules").glob("*.yml"))
    groups = [group for file in files for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]]
    return [rule for group in groups for rule in group["rules"]]


RULES = read_rules()
RECORDED = {rule["record"] for rule in RULES if "record" in rule}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A query of a panel."""

    panel: str
    """Title of the panel."""
    expr: str
    """Expression as Prometheus gets it, with everything chosen."""
    legend: str
    """Name of a series, with labels such as {{model}}."""


def targets(dashboard: Path) -> list[Target]:
    """Return what the panels of a dashboard ask for."""
    panels = json.loads(dashboard.read_text(encoding="utf-8"))["panels"]
    return [
        Target(panel=panel["title"], expr=_sent(target["expr"]), legend=target.get("legendFormat", ""))
        for panel in panels
        for target in panel.get("targets", ())
    ]


def _sent(expr: str) -> str:
    return expr.replace("$__rate_interval", "5m").replace("$instance", ".*").replace("$model", ".*")


def expressions(dashboard: Path) -> list[str]:
    """Return the expressions of a dashboard as Prometheus gets them, with everything chosen."""
    return [target.expr for target in targets(dashboard)]


def variables(dashboard: Path) -> list[tuple[str, str, str]]:
    """Return the names of a dashboard's variables, and of which series which label has their values."""
    listed = json.loads(dashboard.read_text(encoding="utf-8"))["templating"]["list"]
    asked = {each["name"]: each["query"] for each in listed if each["type"] == "query"}
    found = {name: re.fullmatch(r"label_values\((.*), (\w+)\)", query) for name, query in asked.items()}
    return [(name, each[1], each[2]) for name, each in found.items() if each is not None]


def unknown(expr: str, samples: Sequence[Sample]) -> list[str]:
    """Return the metrics and labels of an expression that no server has."""
    labels = {label for sample in samples for label in sample.labels} | OF_THE_SCRAPE
    return [*sorted(grouping_labels(expr) - labels), *_unknown_metrics(expr, samples)]


def _unknown_metrics(expr: str, samples: Sequence[Sample]) -> list[str]:
    scrape = {"job": "xuanzang", "instance": "localhost:9464"}
    return [
        str(selector)
        for selector in selectors(expr)
        if selector.name not in OF_PROMETHEUS | RECORDED
        and not any(each.name == selector.name and selector.matches(scrape | each.labels) for each in samples)
    ]
