from __future__ import annotations

import asyncio
import logging
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress

import pytest
from prometheus_client import CollectorRegistry, Gauge, Metric
from prometheus_client.parser import text_string_to_metric_families

from xuanzang.server.engine.types import QualityFlag
from xuanzang.server.metric_series import Families, Family, Histogram
from xuanzang.server.metric_series import Metric as Declared
from xuanzang.server.metrics import FAILURE_REASONS, QUALITY_FLAGS, Metrics, ModelMetrics
from xuanzang.server.metrics_endpoint import MetricsEndpoint

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


def test_metrics_have_bounded_labels_base_units_and_help_texts(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.models.of(("zh-en", "1"))
    metrics.register_rpc(("unary", "s", "m"))
    for family in ours(registry):
        assert {label for sample in family.samples for label in sample.labels} <= ALLOWED_LABELS
        assert not family.name.endswith(("_ms", "_milliseconds", "_kb", "_minutes"))
        assert family.documentation.endswith("."), family.name


def own_label(labels: dict[str, str]) -> str:
    return next(
        (labels[name] for name in ("reason", "finish_reason", "length", "outcome", "flag", "step") if name in labels),
        "",
    )


@pytest.mark.parametrize("attribute", [name for name in vars(ModelMetrics) if name[0] != "_"])
def test_each_attribute_counts_in_its_metric(metrics: Metrics, registry: CollectorRegistry, attribute: str) -> None:
    series = getattr(metrics.models.of(("zh-en", "1")), attribute)
    changed = series if isinstance(series, dict) else {"": series}
    for one in changed.values():
        one.observe(1) if isinstance(one, Histogram) else one.inc()
    [family] = [family for family in registry.collect() if family.name == f"nmt_{attribute}"]
    kept = [sample for sample in family.samples if sample.name.endswith(("_total", "_count", attribute))]
    assert [sample.value for sample in kept] == [1.0] * len(changed)
    assert all({"model": "zh-en", "version": "1"}.items() <= sample.labels.items() for sample in kept)
    assert set(changed) == {own_label(sample.labels) for sample in kept}


def test_series_that_failed_are_made_next_time(registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    families = Families(ModelMetrics, prefix="nmt", labels=("model", "version"), registry=registry)
    with monkeypatch.context() as patch:
        patch.setattr(Family, "labels", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            families.of(("m", "1"))
    made = vars(families.of(("m", "1")))
    assert made.keys() == {name for name, each in vars(ModelMetrics).items() if isinstance(each, Declared)}


@pytest.fixture
def endpoint(registry: CollectorRegistry) -> Iterator[MetricsEndpoint]:
    Metrics(registry).models.of(("zh-en", "1")).sentences.inc(2)
    endpoint = MetricsEndpoint(registry, host="127.0.0.1", port=0)
    yield endpoint
    endpoint.stop()


def scraped(endpoint: MetricsEndpoint) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics", timeout=30) as response:
        text: str = response.read().decode()
        return text


def raw(endpoint: MetricsEndpoint, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=30) as connection:
        connection.sendall(request)
        received = b""
        while more := connection.recv(65536):
            received += more
    return received


def test_the_endpoint_answers_in_the_format_of_prometheus(endpoint: MetricsEndpoint) -> None:
    families = {family.name: family for family in text_string_to_metric_families(scraped(endpoint))}
    assert [sample.value for sample in families["nmt_sentences"].samples] == [2.0]
    assert "process_resident_memory_bytes" in families


@pytest.mark.parametrize("path", ["/", "/metrics/", "/favicon.ico"])
def test_nothing_but_metrics_is_served(endpoint: MetricsEndpoint, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}{path}", timeout=30)
    assert raw(endpoint, b"POST /metrics HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 405 ")


def test_a_scrape_is_compressed_if_the_scraper_accepts_it(endpoint: MetricsEndpoint) -> None:
    answer = raw(endpoint, b"GET /metrics HTTP/1.1\r\nAccept-Encoding: gzip\r\n\r\n")
    assert b"Content-Encoding: gzip" in answer
    assert answer.partition(b"\r\n\r\n")[2].startswith(b"\x1f\x8b")


@pytest.mark.parametrize("junk", [b"\r\n\r\n", b"\xff" * 70_000, b"GET\r\n\r\n", b"GET /metrics\r\n\r\n"])
def test_what_is_no_request_gets_no_answer(endpoint: MetricsEndpoint, junk: bytes) -> None:
    with suppress(ConnectionResetError, BrokenPipeError):
        assert raw(endpoint, junk) == b""
    assert "nmt_sentences_total" in scraped(endpoint)


def test_half_open_connections_take_no_threads_and_delay_no_scrape(endpoint: MetricsEndpoint) -> None:
    before = threading.active_count()
    silent = [socket.create_connection(("127.0.0.1", endpoint.port), timeout=30) for _ in range(300)]
    for connection in silent[::2]:
        connection.sendall(b"GET /metrics HT")
    assert "nmt_sentences_total" in scraped(endpoint)
    assert threading.active_count() == before
    # The oldest ones were closed to make room.
    assert _closed(silent[0])
    assert len(endpoint._connections) <= 64
    for connection in silent:
        connection.close()


def test_a_scrape_that_is_read_slowly_ends_without_a_fault(
    endpoint: MetricsEndpoint,
    registry: CollectorRegistry,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def no_wait(_: asyncio.StreamWriter) -> None:
        """Let `close` come while data are left to send."""

    monkeypatch.setattr(asyncio.StreamWriter, "drain", no_wait)
    metric = Gauge("large", "More than the buffers of both ends hold.", ["label"], registry=registry)
    for number in range(130):
        metric.labels("x" * 40_000 + str(number)).set(number)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", endpoint.port))
        connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        received = b""
        while more := connection.recv(65536):
            received += more
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"Content-Length: %d\r\n" % len(body) in head + b"\r\n"
    endpoint.stop()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_taken_address_is_named_and_free_after_a_stop(endpoint: MetricsEndpoint, registry: CollectorRegistry) -> None:
    with pytest.raises(OSError, match=f"cannot serve metrics on 127.0.0.1:{endpoint.port}"):
        MetricsEndpoint(registry, host="127.0.0.1", port=endpoint.port)
    # A second stop changes nothing.
    endpoint.stop()
    endpoint.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", endpoint.port), timeout=30)


def _closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
