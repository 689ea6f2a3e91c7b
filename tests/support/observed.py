"""The rules and dashboards of deploy/, and what they ask for that no server has."""

from __future__ import annotations

import json
from collections.abc import Sequence
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


def expressions(dashboard: Path) -> list[str]:
    """Return the expressions of a dashboard as Prometheus gets them, with everything chosen."""
    panels = json.loads(dashboard.read_text(encoding="utf-8"))["panels"]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    return [expr.replace("$__rate_interval", "5m").replace("$instance", ".*").replace("$model", ".*") for expr in asked]


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
