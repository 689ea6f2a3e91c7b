"""What the manifests say of the server is what the server is: no tool is needed to see it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import manifests
import yaml
from prometheus_client import CollectorRegistry

from xuanzang.gateway.app import PROBES
from xuanzang.gateway.settings import read_settings as read_gateway_settings
from xuanzang.server import lifecycle
from xuanzang.server.metrics import Metrics
from xuanzang.server.rpc import server as rpc
from xuanzang.server.rpc.services.health import TRANSLATION_SERVICE
from xuanzang.server.settings import Settings, read_settings, split_address

POD = manifests.pod(manifests.base("Deployment"))
SERVER = manifests.server(manifests.base("Deployment"))
GATEWAY_DEPLOYMENT = manifests.read(manifests.COMPONENTS / "gateway" / "deployment.yaml")
GATEWAY = manifests.server(GATEWAY_DEPLOYMENT)
TLS, KEYS = manifests.COMPONENTS / "tls", manifests.COMPONENTS / "keys"
AUTOSCALING, KEDA = manifests.COMPONENTS / "autoscaling", manifests.COMPONENTS / "keda"


def settings(arguments: list[str], tmp_path: Path) -> Settings:
    """Read the arguments of the container, with files of this machine for those of the container."""
    for name in ("tls.crt", "tls.key", "keys.json"):
        (tmp_path / name).touch()
    places = {
        "=/models": f"={manifests.ROOT / 'server/models'}",
        "=/etc/xuanzang/tls": f"={tmp_path}",
        "=/etc/xuanzang/keys": f"={tmp_path}",
    }
    for there, here in places.items():
        arguments = [argument.replace(there, here) for argument in arguments]
    return read_settings(arguments)


def tls_arguments() -> list[str]:
    return [operation["value"] for operation in manifests.read(TLS / "arguments.yaml")]


def default(name: str) -> Any:
    return Settings.model_fields[name].default


def probes(container: dict[str, Any]) -> list[dict[str, Any]]:
    return [container[name] for name in ("startupProbe", "readinessProbe", "livenessProbe")]


def test_the_server_accepts_its_arguments(tmp_path: Path) -> None:
    plain = settings(SERVER["args"], tmp_path)
    secure = settings([*SERVER["args"], *tls_arguments()], tmp_path)
    assert plain.tls_certificate is None
    assert secure.tls_certificate == tmp_path / "tls.crt"


def test_anyone_is_answered_unless_callers_need_keys(tmp_path: Path) -> None:
    check, replacement = manifests.read(KEYS / "arguments.yaml")
    arguments = [replacement["value"] if each == check["value"] else each for each in SERVER["args"]]
    assert SERVER["args"][0] == check["value"]
    assert settings(SERVER["args"], tmp_path).admits_anonymous
    assert not settings(arguments, tmp_path).admits_anonymous


def test_ports_are_the_defaults_of_the_server(tmp_path: Path) -> None:
    used = settings(SERVER["args"], tmp_path)
    ports = {port["name"]: port["containerPort"] for port in SERVER["ports"]}
    for name, address in (("grpc", "address"), ("metrics", "metrics_address")):
        assert ports[name] == split_address(getattr(used, address)).port == split_address(default(address)).port
    assert {port["name"]: port["port"] for port in manifests.base("Service")["spec"]["ports"]} == ports
    assert {probe["grpc"]["port"] for probe in probes(SERVER)} == {ports["grpc"]}


def test_readiness_is_that_of_the_translation_service() -> None:
    assert SERVER["readinessProbe"]["grpc"]["service"] == TRANSLATION_SERVICE


def test_the_grace_period_exceeds_the_wait_the_drain_and_the_last_answers(tmp_path: Path) -> None:
    drain = settings(SERVER["args"], tmp_path).drain_timeout_seconds
    holding = rpc.STOPPING_SECONDS
    needed = SERVER["lifecycle"]["preStop"]["sleep"]["seconds"] + drain + lifecycle._LEAST_SENDING_SECONDS + holding
    assert POD["terminationGracePeriodSeconds"] > needed


def test_a_start_may_take_longer_than_the_trial_of_a_bundle() -> None:
    for patient in (SERVER, tls_container()):
        probe = patient["startupProbe"]
        assert probe["periodSeconds"] * probe["failureThreshold"] >= 600


def tls_container() -> dict[str, Any]:
    return manifests.server(manifests.read(TLS / "deployment.yaml"))


def test_probes_with_tls_are_the_servers_own_command(tmp_path: Path) -> None:
    for probe in probes(tls_container()):
        assert probe["grpc"] is None
        program, command, *arguments = probe["exec"]["command"]
        assert (program, command) == ("xuanzang", "serve")
        used, served = settings(arguments, tmp_path), settings([*SERVER["args"], *tls_arguments()], tmp_path)
        assert used.probe
        assert (used.tls_certificate, used.tls_key) == (served.tls_certificate, served.tls_key)
        assert split_address(used.address).port == split_address(served.address).port


def containers() -> list[dict[str, Any]]:
    copying = manifests.pod(manifests.read(manifests.COMPONENTS / "models-from-volume" / "deployment.yaml"))
    return [SERVER, *copying["initContainers"]]


def test_the_gateway_accepts_its_arguments_and_calls_the_servers() -> None:
    used = read_gateway_settings(GATEWAY["args"])
    ports = {port["name"]: port["containerPort"] for port in GATEWAY["ports"]}
    assert ports == {
        "http": split_address(used.address).port,
        "metrics": split_address(used.metrics_address or "").port,
    }
    assert {GATEWAY[name]["httpGet"]["path"] for name in ("readinessProbe", "livenessProbe")} == set(PROBES)
    service, port = manifests.base("Service"), split_address(default("address")).port
    assert used.server == f"dns:///{service['metadata']['name']}:{port}"
    wait = GATEWAY["lifecycle"]["preStop"]["sleep"]["seconds"]
    pod = manifests.pod(GATEWAY_DEPLOYMENT)
    assert pod["terminationGracePeriodSeconds"] > wait + used.drain_timeout_seconds


def test_pods_obey_the_restricted_profile_and_write_to_volumes_only() -> None:
    for pod in (POD, manifests.pod(GATEWAY_DEPLOYMENT)):
        restricted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        assert pod["securityContext"].items() >= restricted.items()
    for container in (*containers(), GATEWAY):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"] == container["resources"]["limits"]


def test_the_list_of_tried_bundles_and_temporary_files_lie_in_volumes(tmp_path: Path) -> None:
    folders = [str(settings(SERVER["args"], tmp_path).tried_bundles.parent), "/tmp"]
    places = {mount["mountPath"]: mount["name"] for mount in SERVER["volumeMounts"]}
    writable = [each["name"] for each in POD["volumes"] if "emptyDir" in each]
    assert writable == [places[folder] for folder in folders]


def test_pods_get_no_token_and_no_variables_of_services() -> None:
    assert POD["automountServiceAccountToken"] is False
    assert manifests.base("ServiceAccount")["automountServiceAccountToken"] is False
    assert POD["enableServiceLinks"] is False


def test_user_and_image_are_those_of_the_dockerfile_and_the_compose_file() -> None:
    dockerfile = (manifests.ROOT / "server" / "Dockerfile").read_text(encoding="utf-8")
    user, group = POD["securityContext"]["runAsUser"], POD["securityContext"]["runAsGroup"]
    assert f"USER {user}:{group}\n" in dockerfile
    compose = manifests.read(manifests.ROOT / "docker-compose.yml")
    assert {container["image"] for container in containers()} == {compose["services"]["server"]["image"]}
    assert GATEWAY["image"] == compose["services"]["gateway"]["image"]


def test_metrics_in_queries_exist() -> None:
    registry = CollectorRegistry()
    Metrics(registry)
    known = {family.name for family in registry.collect()}
    texts = [path.read_text(encoding="utf-8") for path in manifests.files()]
    used = {name for text in texts for name in re.findall(r"\b(?:nmt|grpc_server)_[a-z_]+", text)}
    assert used
    assert {re.sub(r"_(bucket|sum|count|total)$", "", name) for name in used} <= known


def test_the_autoscaler_asks_for_the_metric_that_the_adapter_makes() -> None:
    metrics = manifests.read(AUTOSCALING / "autoscaler.yaml")["spec"]["metrics"]
    rules = manifests.read(AUTOSCALING / "prometheus-adapter-values.yaml")["rules"]["custom"]
    asked = [metric["pods"]["metric"]["name"] for metric in metrics if metric["type"] == "Pods"]
    assert asked == [rule["name"]["as"] for rule in rules]


def test_keda_scales_as_the_autoscaler_does() -> None:
    autoscaler = manifests.read(AUTOSCALING / "autoscaler.yaml")["spec"]
    scaled = manifests.read(KEDA / "scaled-object.yaml")["spec"]
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (
        autoscaler["minReplicas"],
        autoscaler["maxReplicas"],
    )
    assert scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == autoscaler["behavior"]
    wait, cpu = autoscaler["metrics"]
    by_name = {trigger["name"]: trigger["metadata"] for trigger in scaled["triggers"]}
    milliseconds = float(wait["pods"]["target"]["averageValue"].removesuffix("m"))
    assert float(by_name["queue-wait"]["threshold"]) * 1000 == milliseconds
    assert int(by_name["cpu"]["value"]) == cpu["containerResource"]["target"]["averageUtilization"]
    assert by_name["cpu"]["containerName"] == cpu["containerResource"]["container"] == SERVER["name"]


def test_the_tree_holds_no_secrets() -> None:
    for path in manifests.files():
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            assert not isinstance(document, dict) or document.get("kind") != "Secret"
    assert not [path for path in manifests.KUBERNETES.rglob("*") if path.suffix in {".pem", ".key", ".crt", ".env"}]
