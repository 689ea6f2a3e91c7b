from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from observed import DASHBOARDS, ROOT, expressions, unknown
from prometheus_client.samples import Sample

PER_DASHBOARD = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)


def test_the_code_builds_the_committed_dashboards(tmp_path: Path) -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="NOT TESTED: dashboards' code: no grafana-foundation-sdk")
    from build import main

    main([str(tmp_path)])
    built = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert built == {path.name: path.read_text(encoding="utf-8") for path in DASHBOARDS}


@PER_DASHBOARD
def test_a_dashboard_asks_for_series_that_servers_have(dashboard: Path, samples: Sequence[Sample]) -> None:
    assert [missing for expr in expressions(dashboard) for missing in unknown(expr, samples)] == []


@PER_DASHBOARD
def test_prometheus_understands_every_expression(dashboard: Path, promtool: str, tmp_path: Path) -> None:
    rules = [{"record": f"expression:{number}", "expr": expr} for number, expr in enumerate(expressions(dashboard))]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": dashboard.stem, "rules": rules}]}), encoding="utf-8")
    done = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


@PER_DASHBOARD
def test_every_panel_has_a_place_a_number_and_a_description(dashboard: Path) -> None:
    panels = json.loads(dashboard.read_text(encoding="utf-8"))["panels"]
    identities = [panel["id"] for panel in panels]
    assert identities == list(range(1, len(panels) + 1))
    assert [panel["title"] for panel in panels if panel["type"] != "row" and not panel["description"]] == []
    cells = [cell for panel in panels for cell in _cells(panel["gridPos"])]
    assert len(cells) == len(set(cells))


def _cells(place: dict[str, int]) -> list[tuple[int, int]]:
    columns = range(place["x"], place["x"] + place["w"])
    return [(x, y) for x in columns for y in range(place["y"], place["y"] + place["h"])]


def test_the_compose_file_mounts_what_the_programs_read() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    mounts = [mount.split(":")[:2] for service in services.values() for mount in service.get("volumes", ())]
    places = {target: source for source, target in mounts if source.startswith("./")}
    assert [source for source in places.values() if not (ROOT / source).exists()] == []
    [provider] = yaml.safe_load((ROOT / "deploy/grafana/provisioning/dashboards/xuanzang.yml").read_text())["providers"]
    assert places[provider["options"]["path"]] == "./deploy/grafana/dashboards"
    prometheus = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text(encoding="utf-8"))
    assert prometheus["rule_files"] == ["rules/*.yml"]
    assert places["/etc/prometheus/rules"] == "./deploy/prometheus/rules"
