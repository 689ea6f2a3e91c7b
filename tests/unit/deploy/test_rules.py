from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
import yaml
from observed import ROOT, RULES, unknown
from prometheus_client.samples import Sample

from xuanzang.server.metrics import DURATION_BUCKETS, LENGTH_CLASSES

ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
DOCUMENT = (ROOT / "docs/alerts.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (Xuanzang\w+)\n(.*?)(?=^##|\Z)", DOCUMENT, re.MULTILINE | re.DOTALL))
STORIES = sorted((ROOT / "deploy/prometheus/tests").glob("*.yml"))


def name(rule: dict[str, Any]) -> str:
    return str(rule.get("alert", rule.get("record")))


@pytest.mark.parametrize("rule", RULES, ids=name)
def test_a_rule_asks_for_series_that_servers_have(rule: dict[str, Any], samples: Sequence[Sample]) -> None:
    assert unknown(rule["expr"], samples) == []


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_links_to_a_section_that_says_what_to_do(alert: str) -> None:
    assert ALERTS[alert]["annotations"]["runbook"] == f"docs/alerts.md#{alert.lower()}"
    assert ALERTS[alert]["labels"]["severity"] in {"critical", "warning"}
    assert "**What to do.**" in SECTIONS[alert]


def test_every_section_is_of_an_alert() -> None:
    assert set(SECTIONS) == set(ALERTS)


def fired() -> set[str]:
    tests = [test for path in STORIES for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]]
    asked = [
        sample["labels"]
        for test in tests
        for each in test.get("promql_expr_test", ())
        for sample in each["exp_samples"]
    ]
    alerts = [each["alertname"] for test in tests for each in test.get("alert_rule_test", ()) if each["exp_alerts"]]
    return {*re.findall(r'alertname="(\w+)"', " ".join(asked)), *alerts}


def test_every_alert_fires_in_a_story() -> None:
    assert fired() == set(ALERTS)


def test_each_length_has_an_objective_that_is_a_bound_of_the_histogram() -> None:
    objectives = {
        rule["labels"]["length"]: float(rule["expr"][len("vector(") : -1])
        for rule in RULES
        if rule.get("record") == "xuanzang:answer_duration_seconds:objective"
    }
    assert set(objectives) == set(LENGTH_CLASSES)
    assert set(objectives.values()) <= set(DURATION_BUCKETS)


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_the_rules_do_what_their_stories_tell(promtool: str, story: Any) -> None:
    done = subprocess.run([promtool, "test", "rules", story], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
