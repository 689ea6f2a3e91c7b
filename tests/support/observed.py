"""The rules and dashboards of deploy/, and what they ask for that no server has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.samples import Sample

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[a-zA-Z_:][a-zA-Z0-9_:]*|[0-9][0-9.a-z]*|[=!]~|!=|[^\s]')
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
_WORDS = {"and", "or", "unless", "bool", "offset", "sum", "max", "min", "avg", "count", "topk", "quantile"}


@dataclass(frozen=True, kw_only=True)
class Selector:
    """A metric with matchers, such as `up{job="xuanzang"}`."""

    name: str
    matchers: list[tuple[str, str, str]] = field(default_factory=list)
    """Label, operator, value."""

    def matches(self, labels: dict[str, str]) -> bool:
        """Return whether a series with these labels is selected."""
        return all(_matches(labels.get(label, ""), operator, value) for label, operator, value in self.matchers)


def _matches(actual: str, operator: str, value: str) -> bool:
    if "~" in operator:
        return bool(re.fullmatch(value, actual)) is (operator == "=~")
    return (actual == value) is (operator == "=")


def selectors(expression: str) -> list[Selector]:
    """Return the selectors of a valid expression."""
    return [Selector(name=name, matchers=matchers) for name, matchers in _found(expression) if name]


def grouping_labels(expression: str) -> set[str]:
    """Return the labels that an expression groups or joins series by."""
    return {label for name, matchers in _found(expression) if not name for label, _, _ in matchers}


def _found(expression: str) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Yield the selectors, and with an empty name the labels of each grouping."""
    tokens = [*_TOKEN.findall(expression), ""]
    at = 0
    while at < len(tokens) - 1:
        token, following = tokens[at], tokens[at + 1]
        at += 1
        if token in _GROUPING:
            end = tokens.index(")", at)
            yield "", [(label, "", "") for label in tokens[at + 1 : end] if label != ","]
            at = end + 1
        elif _NAME.fullmatch(token) and following != "(" and token not in _WORDS:
            end = tokens.index("}", at) if following == "{" else at
            inside = [each for each in tokens[at + 1 : end] if each != ","]
            triples = zip(inside[::3], inside[1::3], inside[2::3], strict=True)
            yield token, [(label, operator, value[1:-1]) for label, operator, value in triples]
            at = end


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
