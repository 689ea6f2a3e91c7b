"""The queries that pods are scaled by, evaluated by promtool on series written here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import manifests
import pytest

pytestmark = pytest.mark.e2e

LABELS = 'job="xuanzang-server",namespace="translation"'
# Pod a: model x waits 4 s; model y has nothing in its queue, and an estimate left over from before. Pod b: no queue.
SERIES = {
    f'nmt_estimated_queue_wait_seconds{{{LABELS},pod="a",model="x",version="1"}}': 4,
    f'nmt_estimated_queue_wait_seconds{{{LABELS},pod="a",model="y",version="1"}}': 9,
    f'nmt_estimated_queue_wait_seconds{{{LABELS},pod="b",model="x",version="1"}}': 0,
    f'nmt_queue_tokens{{{LABELS},pod="a",model="x",version="1"}}': 700,
    f'nmt_queue_tokens{{{LABELS},pod="a",model="y",version="1"}}': 0,
    f'nmt_queue_tokens{{{LABELS},pod="b",model="x",version="1"}}': 0,
}


def query_of_keda() -> str:
    triggers = manifests.read(manifests.COMPONENTS / "keda" / "scaled-object.yaml")["spec"]["triggers"]
    (query,) = [trigger["metadata"]["query"] for trigger in triggers if trigger["type"] == "prometheus"]
    return str(query)


def query_of_the_adapter() -> str:
    values = manifests.read(manifests.COMPONENTS / "autoscaling" / "prometheus-adapter-values.yaml")
    (rule,) = values["rules"]["custom"]
    selected = 'namespace="translation",pod=~"a|b"'
    return str(rule["metricsQuery"].replace("<<.GroupBy>>", "pod").replace("<<.LabelMatchers>>", selected))


@pytest.mark.parametrize(
    ("query", "expected"),
    [(query_of_keda(), {"{}": 2}), (query_of_the_adapter(), {'{pod="a"}': 4, '{pod="b"}': 0})],
    ids=["keda", "adapter"],
)
def test_the_wait_is_that_of_models_with_a_queue(query: str, expected: dict[str, float], tmp_path: Path) -> None:
    promtool = manifests.tool("promtool")
    if promtool is None:
        pytest.skip("NOT TESTED: the queries of KEDA and the adapter: there is no promtool: apt-get install prometheus")
    samples = [{"labels": labels, "value": value} for labels, value in expected.items()]
    test = {
        "interval": "1m",
        "input_series": [{"series": series, "values": f"{value}x5"} for series, value in SERIES.items()],
        "promql_expr_test": [{"expr": query, "eval_time": "3m", "exp_samples": samples}],
    }
    (tmp_path / "test.yaml").write_text(json.dumps({"tests": [test]}), encoding="utf-8")
    command = [promtool, "test", "rules", "test.yaml"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
