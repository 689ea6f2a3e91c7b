"""The compose file, run by a real engine with the image that our Dockerfile makes. It takes some minutes.

No registry is asked: the base image is made of Debian's packages, and images of this machine's Envoy, Prometheus and
Alertmanager have the names that the compose file uses. Grafana and the collector, which Debian lacks, are not started.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import container_engine
import envoy
import manifests
import pytest
from container_engine import Engine

from xuanzang.client import TranslationClient

pytestmark = pytest.mark.e2e

ROOT = manifests.ROOT
CACHE = ROOT / "build" / "containers"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
STARTED = ("server", "envoy", "gateway", "prometheus", "alertmanager")
PORTS = {"envoy": 50051, "gateway": 8080, "prometheus": 9090, "alertmanager": 9093}
TEMPLATES = "/usr/share/prometheus/alertmanager"
"""What Debian's Alertmanager reads at its start; in others it is part of the program."""
SCRAPE_SECONDS = 120.0
COMPOSE = manifests.read(ROOT / "docker-compose.yml")
# Others may use the ports of the compose file.
OVERRIDE = "services:\n" + "".join(
    f'  {service}: {{ports: !override ["127.0.0.1:0:{port}"]}}\n' for service, port in PORTS.items()
)


def program(name: str) -> str:
    """Return the path of a program that an image is made around."""
    found = envoy.program() if name == "envoy" else shutil.which(name)
    if found is None:
        pytest.skip(f"NOT TESTED: the compose file was not run: there is no {name}")
    return str(Path(found).resolve())


def lines_of(name: str) -> list[str]:
    """Return what the Dockerfile of an image says besides its program, as the published images have it."""
    if name == "envoy":
        return ['ENTRYPOINT ["envoy"]']
    folder = f"/{name}"
    return [
        f"RUN mkdir {folder} && chown nobody {folder}",
        "USER nobody",
        f"WORKDIR {folder}",
        f'ENTRYPOINT ["{"prometheus" if name == "prometheus" else "prometheus-alertmanager"}"]',
    ]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    obstacle = container_engine.obstacle()
    if obstacle is not None:
        pytest.skip(f"NOT TESTED: the compose file was not run: {obstacle}")
    programs = {"envoy": "envoy", "prometheus": "prometheus", "alertmanager": "prometheus-alertmanager"}
    paths = {name: program(each) for name, each in programs.items()}
    scratch = tmp_path_factory.mktemp("engine")
    with container_engine.container_engine(CACHE, scratch) as engine:
        if not engine.has(container_engine.BASE):
            engine.import_base(scratch / "base")
        secret = ["--secret", f"id=ca,src={CERTIFICATES}"] if Path(CERTIFICATES).exists() else []
        for name in ("server", "gateway"):
            image = COMPOSE["services"][name]["image"]
            engine.run("build", "--file", str(ROOT / name / "Dockerfile"), "--tag", image, *secret, str(ROOT))
        for name, path in paths.items():
            files = [path, TEMPLATES] if name == "alertmanager" else [path]
            engine.build_around(files, COMPOSE["services"][name]["image"], lines_of(name), scratch / name)
        yield engine


class Project:
    """The services of the compose file."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        (folder / "ports.yml").write_text(OVERRIDE, encoding="utf-8")
        files = ["--file", str(ROOT / "docker-compose.yml"), "--file", str(folder / "ports.yml")]
        self._command = [
            str(Path(sys.executable).with_name("docker-compose")),
            "--project-name",
            "xuanzang-e2e",
            *files,
        ]

    def run(self, *arguments: str) -> str:
        """Run a command of Compose and return its output."""
        environment = {**os.environ, "DOCKER_HOST": self._engine.host}
        ended = subprocess.run(
            [*self._command, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def address(self, service: str) -> str:
        return self.run("port", service, str(PORTS[service])).strip()

    def kill_a_server(self) -> None:
        """Kill the process of a server, as the system would."""
        container = self.run("ps", "--quiet", "server").split()[0]
        os.kill(int(self._engine.run("inspect", "--format", "{{.State.Pid}}", container)), signal.SIGKILL)

    def value(self, query: str) -> float:
        """Return the only value of a query to Prometheus, 0 if there is none."""
        url = f"http://{self.address('prometheus')}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        with urllib.request.urlopen(url, timeout=30) as response:
            found: list[Any] = json.load(response)["data"]["result"]
        return float(found[0]["value"][1]) if found else 0.0

    def until(self, query: str, expected: float) -> None:
        """Wait until a query has a value."""
        until = time.monotonic() + SCRAPE_SECONDS
        while (value := self.value(query)) != expected:
            assert time.monotonic() < until, f"{query} is {value}, not {expected}"
            time.sleep(1)


@pytest.fixture(scope="module")
def project(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    project = Project(engine, tmp_path_factory.mktemp("compose"))
    try:
        project.run("up", "--wait", "--no-build", *STARTED)
        yield project
    finally:
        # pytest shows it if a test has failed.
        sys.stdout.write(project.run("logs", "--no-color", "--tail", "40"))
        project.run("down", "--volumes", "--timeout", "60")


def test_two_servers_translate_behind_envoy_and_are_scraped(project: Project) -> None:
    with TranslationClient(project.address("envoy")) as client:
        texts = {client.translate_one("我有一只猫。").text for _ in range(20)}
    assert len(texts) == 1
    assert "cat" in texts.pop()
    project.until('count(up{job="xuanzang"} == 1)', 2)
    project.until('count(nmt_requests_total{job="xuanzang"} > 0)', 2)
    project.until('up{job="envoy"}', 1)
    project.until("sum(nmt_requests_total)", 20)


def test_the_gateway_s_container_translates_and_serves_the_page(project: Project) -> None:
    gateway = f"http://{project.address('gateway')}"
    body = json.dumps({"q": "我有一只猫。", "source": "zh", "target": "en"}).encode()
    request = urllib.request.Request(f"{gateway}/translate", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert "cat" in json.load(answer)["translatedText"]
    with urllib.request.urlopen(f"{gateway}/", timeout=30) as answer:
        assert "<title>xuanzang</title>" in answer.read().decode()


def test_prometheus_has_found_alertmanager(project: Project) -> None:
    with urllib.request.urlopen(f"http://{project.address('prometheus')}/api/v1/alertmanagers", timeout=30) as answer:
        assert len(json.load(answer)["data"]["activeAlertmanagers"]) == 1


def test_no_call_fails_when_the_process_of_a_container_is_killed(project: Project) -> None:
    with TranslationClient(project.address("envoy")) as client:
        expected = client.translate_one("我有一只猫。").text
        project.kill_a_server()
        assert {client.translate_one("我有一只猫。").text for _ in range(200)} == {expected}
    # Docker starts it again, and Envoy and Prometheus find it.
    project.until('count(up{job="xuanzang"} == 1)', 2)
    project.until('envoy_cluster_membership_healthy{envoy_cluster_name="servers"}', 2)
