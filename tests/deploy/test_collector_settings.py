"""The collector's configuration, beside the compose file; the collector itself is not to be had without its image."""

from __future__ import annotations

import manifests

COMPOSE = manifests.read(manifests.ROOT / "docker-compose.yml")["services"]
COLLECTOR = manifests.read(manifests.ROOT / "deploy" / "otel" / "collector.yaml")


def test_the_collector_takes_traces_where_the_servers_send_them() -> None:
    port = COLLECTOR["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"].rpartition(":")[2]
    assert COMPOSE["server"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"] == f"http://otel-collector:{port}"
    (pipeline,) = COLLECTOR["service"]["pipelines"].values()
    assert set(pipeline["receivers"]) == COLLECTOR["receivers"].keys()
    assert set(pipeline["processors"]) == COLLECTOR["processors"].keys()
    # Which exporter is a variable of the compose file.
    assert pipeline["exporters"] == ["${env:TRACES_EXPORTER}"]
    assert COMPOSE["otel-collector"]["environment"]["TRACES_EXPORTER"] == "${TRACES_EXPORTER:-debug}"
    assert "debug" in COLLECTOR["exporters"]


def test_the_collector_refuses_before_it_keeps_more_than_its_memory() -> None:
    (pipeline,) = COLLECTOR["service"]["pipelines"].values()
    # As its documentation asks: the limiter first, so that it refuses before anything is kept.
    assert pipeline["processors"][0] == "memory_limiter"
    limiter, batch = COLLECTOR["processors"]["memory_limiter"], COLLECTOR["processors"]["batch"]
    assert limiter["spike_limit_mib"] < limiter["limit_mib"]
    memory = COMPOSE["otel-collector"]["deploy"]["resources"]["limits"]["memory"]
    assert limiter["limit_mib"] < int(memory.removesuffix("M"))
    assert batch["send_batch_size"] <= batch["send_batch_max_size"]
