from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.parser import text_string_to_metric_families

from xuanzang.server.metrics import DURATION_BUCKETS, FAILURE_REASONS, Metrics, MetricsEndpoint

ALLOWED_LABELS = {
    *("model", "version", "reason", "finish_reason", "sha256", "precision", "provider", "kernels"),
    *("grpc_type", "grpc_service", "grpc_method", "grpc_code", "le"),
}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    return Metrics(registry)


def ours(registry: CollectorRegistry) -> Iterator[Metric]:
    return (family for family in registry.collect() if family.name.startswith(("nmt_", "grpc_")))


def test_every_series_of_a_model_exists_at_zero(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.of(("zh-en", "3"))
    model = {"model": "zh-en", "version": "3"}
    for reason in FAILURE_REASONS:
        assert registry.get_sample_value("nmt_request_failures_total", {**model, "reason": reason}) == 0
    for family in ours(registry):
        # Facts about the model and the build appear with their values; RPCs are registered apart.
        if family.name.startswith("nmt_") and family.name not in {"nmt_model_info", "nmt_build_info"}:
            assert any(sample.labels.items() >= model.items() for sample in family.samples), family.name


def test_labels_come_from_bounded_sets(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.of(("zh-en", "1"))
    metrics.register_rpc(grpc_type="unary", grpc_service="s", grpc_method="m")
    assert {
        label for family in ours(registry) for sample in family.samples for label in sample.labels
    } <= ALLOWED_LABELS


def test_metrics_are_in_base_units_and_say_what_they_count(metrics: Metrics, registry: CollectorRegistry) -> None:
    for family in ours(registry):
        assert not family.name.endswith(("_ms", "_milliseconds", "_kb", "_minutes"))
        assert family.documentation.endswith("."), family.name


def test_durations_are_told_apart_below_ten_milliseconds() -> None:
    assert list(DURATION_BUCKETS) == sorted(DURATION_BUCKETS)
    assert sum(bound <= 0.01 for bound in DURATION_BUCKETS) >= 8


def test_each_attribute_is_named_after_its_metric(metrics: Metrics) -> None:
    named = {attribute: metric for attribute, metric in vars(metrics).items() if hasattr(metric, "_documentation")}
    assert named
    for attribute, metric in named.items():
        assert metric._name.removeprefix("nmt_") == attribute


def test_prometheus_can_read_what_the_endpoint_says(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.of(("zh-en", "1"))
    metrics.of(("zh-en", "1")).sentences.inc(2)
    endpoint = MetricsEndpoint(registry, host="127.0.0.1", port=0)
    with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics") as response:
        families = {family.name: family for family in text_string_to_metric_families(response.read().decode())}
    endpoint.stop()
    assert [sample.value for sample in families["nmt_sentences"].samples] == [2.0]
    assert "process_resident_memory_bytes" in families


def test_an_address_that_is_taken_is_named(registry: CollectorRegistry) -> None:
    endpoint = MetricsEndpoint(registry, host="127.0.0.1", port=0)
    with pytest.raises(OSError, match=f"cannot serve metrics on 127.0.0.1:{endpoint.port}"):
        MetricsEndpoint(registry, host="127.0.0.1", port=endpoint.port)
    endpoint.stop()
