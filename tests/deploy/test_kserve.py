"""The resources of deploy/kserve: known fields, and arguments and a container that server and Kubernetes take."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import manifests
import pytest

from xuanzang.gateway.settings import read_settings as read_gateway_settings
from xuanzang.server.rpc.services.health import TRANSLATION_SERVICE
from xuanzang.server.settings import Settings, read_settings, split_address

FOLDER = manifests.ROOT / "deploy" / "kserve"
RUNTIME: dict[str, Any] = manifests.read(FOLDER / "serving-runtime.yaml")
SERVICE: dict[str, Any] = manifests.read(FOLDER / "inference-service.yaml")
CONTAINER, GATEWAY = RUNTIME["spec"]["containers"]


def settings() -> Settings:
    models = f"={manifests.ROOT / 'server/models'}"
    return read_settings([argument.replace("=/mnt/models", models) for argument in CONTAINER["args"]])


def test_the_server_takes_its_arguments() -> None:
    assert settings().admits_anonymous
    assert "--models=/mnt/models" in CONTAINER["args"]


def test_ports_and_probes_are_those_of_the_server() -> None:
    gateway = read_gateway_settings(GATEWAY["args"])
    assert gateway.grpc_address is not None
    assert gateway.server == settings().address
    served = split_address(gateway.grpc_address).port
    assert [each["containerPort"] for each in CONTAINER["ports"]] == [served]
    assert GATEWAY["readinessProbe"]["grpc"] == {"port": served, "service": "inference.GRPCInferenceService"}
    assert GATEWAY["livenessProbe"]["httpGet"]["port"] == split_address(gateway.address).port
    port = split_address(settings().health_address or "").port
    probes = [CONTAINER[name]["grpc"] for name in ("startupProbe", "readinessProbe", "livenessProbe")]
    assert {probe["port"] for probe in probes} == {port}
    assert probes[1]["service"] == TRANSLATION_SERVICE


def test_the_service_asks_for_what_the_runtime_offers() -> None:
    model, offered = SERVICE["spec"]["predictor"]["model"], RUNTIME["spec"]["supportedModelFormats"]
    assert model["runtime"] == RUNTIME["metadata"]["name"]
    assert model["protocolVersion"] in RUNTIME["spec"]["protocolVersions"]
    assert model["modelFormat"] in [{"name": each["name"], "version": each["version"]} for each in offered]


@pytest.mark.e2e
@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_the_container_matches_the_strict_schema_of_kubernetes(version: str, tmp_path: Path) -> None:
    tool = manifests.tool("kubernetes-validate")
    if tool is None:
        pytest.skip("NOT TESTED: KServe's container: `.ci/peers kubernetes` installs the validator")
    metadata = {"name": "server"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [CONTAINER, GATEWAY]}}
    (tmp_path / "pod.yaml").write_text(json.dumps(pod), encoding="utf-8")
    command = [tool, "--strict", "-k", version, str(tmp_path / "pod.yaml")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert f"version {version}" in run.stdout
