from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Metric

from xuanzang.server.engine.types import QualityFlag
from xuanzang.server.metric_series import Families, Family, Histogram
from xuanzang.server.metric_series import Metric as Declared
from xuanzang.server.metrics import FAILURE_REASONS, QUALITY_FLAGS, Metrics, ModelMetrics

ALLOWED_LABELS = {
    *("model", "change", "version", "reason", "finish_reason", "length", "sha256", "precision", "provider", "kernels"),
    *("live", "outcome", "result", "step", "tier", "source"),
    *("grpc_type", "grpc_service", "grpc_method", "grpc_code", "flag", "le"),
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
    metrics.models.of(("zh-en", "3"))
    model = {"model": "zh-en", "version": "3"}
    for reason in FAILURE_REASONS:
        assert registry.get_sample_value("nmt_request_failures_total", {**model, "reason": reason}) == 0
    shown = {
        family.name
        for family in ours(registry)
        if any(sample.labels.items() >= model.items() for sample in family.samples)
    }
    assert {f"nmt_{name}" for name in vars(ModelMetrics) if name[0] != "_"} <= shown


def test_every_flag_of_quality_has_a_series() -> None:
    assert sorted(QUALITY_FLAGS) == sorted(flag.value for flag in QualityFlag)


def test_labels_come_from_bounded_sets(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.models.of(("zh-en", "1"))
    metrics.register_rpc(("unary", "s", "m"))
    assert {
        label for family in ours(registry) for sample in family.samples for label in sample.labels
    } <= ALLOWED_LABELS


def test_metrics_are_in_base_units_and_have_help_texts(metrics: Metrics, registry: CollectorRegistry) -> None:
    for family in ours(registry):
        assert not family.name.endswith(("_ms", "_milliseconds", "_kb", "_minutes"))
        assert family.documentation.endswith("."), family.name


def own_label(labels: dict[str, str]) -> str:
    return next(
        (labels[name] for name in ("reason", "finish_reason", "length", "outcome", "flag", "step") if name in labels),
        "",
    )


@pytest.mark.parametrize("attribute", [name for name in vars(ModelMetrics) if name[0] != "_"])
def test_each_attribute_counts_in_the_metric_of_its_name(
    metrics: Metrics, registry: CollectorRegistry, attribute: str
) -> None:
    series = getattr(metrics.models.of(("zh-en", "1")), attribute)
    changed = series if isinstance(series, dict) else {"": series}
    for one in changed.values():
        one.observe(1) if isinstance(one, Histogram) else one.inc()
    [family] = [family for family in registry.collect() if family.name == f"nmt_{attribute}"]
    kept = [sample for sample in family.samples if sample.name.endswith(("_total", "_count", attribute))]
    assert [sample.value for sample in kept] == [1.0] * len(changed)
    assert all({"model": "zh-en", "version": "1"}.items() <= sample.labels.items() for sample in kept)
    assert set(changed) == {own_label(sample.labels) for sample in kept}


def test_series_that_failed_are_made_whole_the_next_time(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    families = Families(ModelMetrics, prefix="nmt", labels=("model", "version"), registry=registry)
    with monkeypatch.context() as patch:
        patch.setattr(Family, "labels", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            families.of(("m", "1"))
    made = vars(families.of(("m", "1")))
    assert made.keys() == {name for name, each in vars(ModelMetrics).items() if isinstance(each, Declared)}
