"""The rules, the dashboards and what they are checked against."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.samples import Sample
from promql import grouping_labels, selectors

from xuanzang.server.metrics import STATUS_CODES, Metrics

ROOT = Path(__file__).parents[3]
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
    return [
        expr.replace("$__rate_interval", "5m").replace("$instance", ".*").replace("$model", ".*") for expr in asked
    ]


@pytest.fixture(scope="session")
def samples() -> list[Sample]:
    """Return all series of a server with a model."""
    metrics = Metrics(CollectorRegistry())
    metrics.of(("zh-en", "1"))
    rpc = ("unary", "xuanzang.translation.v1.TranslationService", "TranslateText")
    metrics.register_rpc(rpc)
    assert STATUS_CODES
    return [sample for family in metrics.registry.collect() for sample in family.samples]


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


@pytest.fixture(scope="session")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("NOT TESTED, because there is no promtool: apt-get install prometheus")
    return found
