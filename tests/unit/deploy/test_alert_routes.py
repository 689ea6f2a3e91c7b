"""Where alerts go: Alertmanager's configuration beside the rules that raise them."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml
from observed import ROOT, RULES

PATH = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"
CONFIGURATION: dict[str, Any] = yaml.safe_load(PATH.read_text(encoding="utf-8"))
RECEIVERS = {"critical": "pager", "warning": "day"}
ALERTS = {rule["alert"]: rule["labels"]["severity"] for rule in RULES if "alert" in rule}


@pytest.fixture(scope="module")
def amtool() -> str:
    found = shutil.which("amtool")
    if found is None:
        pytest.skip("NOT TESTED: the routes of alerts: there is no amtool: apt-get install prometheus-alertmanager")
    return found


@pytest.mark.parametrize("alert", ALERTS)
def test_alertmanager_sends_an_alert_to_the_receiver_of_its_severity(alert: str, amtool: str) -> None:
    labels = (f"alertname={alert}", f"severity={ALERTS[alert]}")
    command = [amtool, "config", "routes", "test", f"--config.file={PATH}", *labels]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == RECEIVERS[ALERTS[alert]]


def test_only_alerts_that_there_are_silence_others() -> None:
    matchers = [each for rule in CONFIGURATION["inhibit_rules"] for side in rule.values() for each in side]
    named = {name for each in matchers for name in re.findall(r"Xuanzang\w+", each)}
    assert all(each.startswith("alertname ") for each in matchers)
    assert named
    assert named <= ALERTS.keys()


def test_prometheus_and_grafana_ask_where_the_compose_file_has_the_others() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    prometheus = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text(encoding="utf-8"))
    [alertmanagers] = prometheus["alerting"]["alertmanagers"]
    path = next((ROOT / "deploy/grafana/provisioning/datasources").iterdir())
    [source] = yaml.safe_load(path.read_text(encoding="utf-8"))["datasources"]
    targets = [target for each in alertmanagers["static_configs"] for target in each["targets"]]
    for address in (*targets, source["url"].removeprefix("http://")):
        name, _, port = address.partition(":")
        assert services[name]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert source["type"] == "prometheus"
    assert source["jsonData"]["timeInterval"] == prometheus["global"]["scrape_interval"]
