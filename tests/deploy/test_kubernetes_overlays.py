"""Every overlay as kubectl renders it, against the schemas of Kubernetes. `make e2e` installs both."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import manifests
import pytest

pytestmark = pytest.mark.e2e

VERSIONS = ("1.30", "1.37")
"""The oldest version that the manifests are for (preStop.sleep), and the newest with a schema."""

CUSTOM = ("ScaledObject", "ServiceMonitor")
"""Kinds of KEDA and of the Prometheus operator, for which Kubernetes has no schema."""


def needed(name: str) -> str:
    path = manifests.tool(name)
    if path is None:
        pytest.skip(f"NOT TESTED: the manifests with {name}: `.ci/peers kubernetes` installs it")
    return path


@pytest.fixture(scope="module", params=[manifests.BASE, *manifests.OVERLAYS], ids=lambda folder: folder.name)
def rendered(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return manifests.render(needed("kubectl"), request.param)


def of_kind(resources: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [resource for resource in resources if resource["kind"] == kind]


def programs(resources: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the resources by the program that they are of: the server, and the gateway if it is there."""
    names = [deployment["metadata"]["name"] for deployment in of_kind(resources, "Deployment")]
    label = "app.kubernetes.io/name"
    return [[each for each in resources if each["metadata"].get("labels", {}).get(label) == name] for name in names]


@pytest.mark.parametrize("version", VERSIONS)
def test_resources_match_the_strict_schemas_of_kubernetes(
    rendered: list[dict[str, Any]], version: str, tmp_path: Path
) -> None:
    own = [resource for resource in rendered if resource["kind"] not in CUSTOM]
    (tmp_path / "list.yaml").write_text("\n---\n".join(json.dumps(resource) for resource in own), encoding="utf-8")
    command = [needed("kubernetes-validate"), "--strict", "-k", version, str(tmp_path / "list.yaml")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    # A resource without a schema is only a warning.
    passed = [line for line in run.stdout.splitlines() if line.startswith("INFO") and f"version {version}" in line]
    assert len(passed) == len(own), run.stdout
    assert run.returncode == 0


def test_names_that_resources_use_of_each_other_exist(rendered: list[dict[str, Any]]) -> None:
    for own in programs(rendered):
        (deployment,) = of_kind(own, "Deployment")
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        (service,) = of_kind(own, "Service")
        ports = {port["name"] for port in manifests.server(deployment)["ports"]}
        assert service["spec"]["selector"].items() <= labels.items()
        assert {port["targetPort"] for port in service["spec"]["ports"]} == ports
        (policy,) = of_kind(own, "NetworkPolicy")
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
        assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} <= ports
        assert manifests.pod(deployment)["serviceAccountName"] == of_kind(own, "ServiceAccount")[0]["metadata"]["name"]
        for monitor in of_kind(own, "ServiceMonitor"):
            assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
            assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= ports
            assert "metrics" in {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
    (server,) = [each for each in of_kind(rendered, "Deployment") if each["metadata"]["name"] == "xuanzang-server"]
    for scaler in (*of_kind(rendered, "HorizontalPodAutoscaler"), *of_kind(rendered, "ScaledObject")):
        assert scaler["spec"]["scaleTargetRef"]["name"] == server["metadata"]["name"]


def test_every_resource_is_in_the_namespace_that_is_made_with_it(rendered: list[dict[str, Any]]) -> None:
    (namespace,) = of_kind(rendered, "Namespace")
    inside = {resource["metadata"].get("namespace") for resource in rendered if resource is not namespace}
    assert inside == {namespace["metadata"]["name"]}


def test_the_whole_service_comes_from_a_registry_and_traces_are_let_out() -> None:
    service = manifests.render(needed("kubectl"), manifests.KUBERNETES / "overlays" / "service")
    images = {manifests.server(each)["image"] for each in of_kind(service, "Deployment")}
    assert images == {f"registry.example.com/xuanzang-{name}:0.1.0" for name in ("server", "gateway")}
    traced = manifests.render(needed("kubectl"), manifests.KUBERNETES / "overlays" / "tracing")
    (policy,) = of_kind(traced, "NetworkPolicy")
    assert {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]} == {4317, 53}


def test_replicas_are_set_unless_an_autoscaler_sets_them(rendered: list[dict[str, Any]]) -> None:
    scalers = [*of_kind(rendered, "HorizontalPodAutoscaler"), *of_kind(rendered, "ScaledObject")]
    for deployment in of_kind(rendered, "Deployment"):
        assert ("replicas" in deployment["spec"]) is not bool(scalers)


def test_volumes_that_are_mounted_exist(rendered: list[dict[str, Any]]) -> None:
    used = set()
    for deployment in of_kind(rendered, "Deployment"):
        pod = manifests.pod(deployment)
        volumes = {volume["name"]: volume for volume in pod.get("volumes", ())}
        containers = (*pod["containers"], *pod.get("initContainers", ()))
        assert {mount["name"] for each in containers for mount in each.get("volumeMounts", ())} == set(volumes)
        used |= {volume["configMap"]["name"] for volume in volumes.values() if "configMap" in volume}
    assert used == {resource["metadata"]["name"] for resource in of_kind(rendered, "ConfigMap")}


def test_a_probe_has_one_way_of_probing(rendered: list[dict[str, Any]]) -> None:
    for deployment in of_kind(rendered, "Deployment"):
        probes = [each for name, each in manifests.server(deployment).items() if name.endswith("Probe")]
        assert len(probes) >= 2
        assert all(len({"grpc", "exec", "httpGet"} & probe.keys()) == 1 for probe in probes)
