"""What the rules and dashboards are checked against."""

from __future__ import annotations

import shutil
from typing import get_args

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.samples import Sample

from xuanzang.server.access.metrics import CERTIFICATES, AccessMetrics, ReloadedFile
from xuanzang.server.metrics import Metrics


@pytest.fixture(scope="session")
def samples() -> list[Sample]:
    """Return all series of a server with a model and a key."""
    access = AccessMetrics(registry := CollectorRegistry())
    access.of_keys.of(("key",))
    for file in get_args(ReloadedFile):
        access.watch(file)
    access.set_expiries(dict.fromkeys(CERTIFICATES, 0.0))
    metrics = Metrics(registry)
    metrics.models.of(("zh-en", "1"))
    metrics.register_rpc(("unary", "xuanzang.translation.v1.TranslationService", "TranslateText"))
    return [sample for family in metrics.registry.collect() for sample in family.samples]


@pytest.fixture(scope="session")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("NOT TESTED: PromQL of rules and dashboards: there is no promtool: apt-get install prometheus")
    return found
