"""The compose file, run by a real engine with the image that our Dockerfile makes. It takes some minutes.

No registry is asked: the base image is made of Debian's packages, and images of this machine's Envoy, Prometheus and
Alertmanager have the names that the compose file uses. Grafana and the collector, which Debian lacks, are not started.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import envoy
import manifests
import pytest

from xuanzang.client import TranslationClient

DOCKER = "/usr/bin/docker"
"""Debian's client, which builds without a plugin."""
PROGRAMS = (DOCKER, "dockerd", "iptables", "iptables-save", "debootstrap", "ip", "tar")
PACKAGES = "docker.io iptables debootstrap iproute2"
BASE = "python:3.11-slim"
START_SECONDS = 60.0
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_RULES = ("iptables", "ip6tables")


def obstacle() -> str | None:
    """Return why no engine can be started here, or None."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"no {', '.join(missing)}: apt-get install {PACKAGES}"
    if os.geteuid() != 0:
        return "only root can start an engine"
    if "docker0" in _links():
        return "another engine has docker0, and two would change each other's rules"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A running engine."""

    host: str
    """Address for clients, unix://…."""

    def run(self, *arguments: str, **environment: str) -> str:
        """Run a command of the client and return its output.

        Raises:
            subprocess.CalledProcessError: It failed; its messages are on standard error.
        """
        env = {**os.environ, "DOCKER_HOST": self.host, "DOCKER_BUILDKIT": "1", **environment}
        return subprocess.run([DOCKER, *arguments], env=env, check=True, stdout=subprocess.PIPE, text=True).stdout

    def has(self, image: str) -> bool:
        """Return whether the engine has an image."""
        return bool(self.run("images", "--quiet", image).strip())

    def import_base(self, folder: Path) -> None:
        """Make the base image of Debian's packages.

        Args:
            folder: Folder that is not there yet.
        """
        packages = "python3,python3-venv,python3-pip,ca-certificates,g++,wget"
        subprocess.run(["debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", folder], check=True)
        archive = f"tar --directory {folder} --create . | {DOCKER} --host {self.host} import - {BASE}"
        subprocess.run(["bash", "-o", "pipefail", "-c", archive], check=True)
        shutil.rmtree(folder)

    def build_around(self, files: Sequence[str], image: str, lines: Sequence[str], context: Path) -> None:
        """Build an image of the base and some files of this machine.

        Args:
            files: Paths of programs, which go to /usr/local/bin, and of folders, which keep their places.
            image: Name and tag.
            lines: Further lines of the Dockerfile.
            context: Folder to build from, which is made.
        """
        context.mkdir(parents=True)
        copies = []
        for path in map(Path, files):
            if path.is_dir():
                shutil.copytree(path, context / path.name)
                copies.append(f"COPY {path.name} {path}")
            else:
                shutil.copy(path, context / path.name)
                copies.append(f"COPY {path.name} /usr/local/bin/")
        (context / "Dockerfile").write_text("\n".join([f"FROM {BASE}", *copies, *lines]), encoding="utf-8")
        self.run("build", "--quiet", "--tag", image, str(context))


@contextmanager
def container_engine(data: Path, scratch: Path) -> Iterator[Engine]:
    """Start an engine, and stop it afterwards.

    Args:
        data: Folder of its images, kept for the next time.
        scratch: Folder of its socket and log.

    Raises:
        ChildProcessError: It does not start; the message has the end of its log.
    """
    rules, forwarding, links = _rules(), _FORWARDING.read_text(), _links()
    flags = ["--data-root", data, "--exec-root", scratch / "exec", "--pidfile", scratch / "pid", "--mtu", "1400"]
    engine = Engine(host=f"unix://{scratch / 'socket'}")
    with (scratch / "log").open("wb") as log:
        process = subprocess.Popen(["dockerd", *map(str, flags), "--host", engine.host], stdout=log, stderr=log)
    try:
        _wait(engine, process, scratch / "log")
        yield engine
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        _restore(rules, forwarding, links)


def _wait(engine: Engine, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    command = [DOCKER, "--host", engine.host, "info"]
    while subprocess.run(command, capture_output=True, check=False).returncode:
        if process.poll() is not None or time.monotonic() > until:
            raise ChildProcessError(f"dockerd does not start: {log.read_text(encoding='utf-8')[-2000:]}")
        time.sleep(0.2)


def _rules() -> dict[str, dict[str, str]]:
    """Return the rules of each table of both families."""
    return {family: _tables(_output(f"{family}-save")) for family in _RULES}


def _tables(saved: str) -> dict[str, str]:
    return {
        each.group(1): each.group() for each in re.finditer(r"^\*(\w+)$.*?^COMMIT$", saved, re.MULTILINE | re.DOTALL)
    }


def _restore(rules: dict[str, dict[str, str]], forwarding: str, links: set[str]) -> None:
    for family, tables in _rules().items():
        wanted = [rules[family].get(name, _emptied(now)) for name, now in tables.items()]
        subprocess.run([f"{family}-restore"], input="\n".join([*wanted, ""]), text=True, check=True)
    _FORWARDING.write_text(forwarding)
    for link in sorted(_links() - links):
        if link == "docker0" or link.startswith("br-"):
            subprocess.run(["ip", "link", "delete", link], check=True)


def _emptied(table: str) -> str:
    """Return a table with its own chains only, which accept everything."""
    name = table.splitlines()[0]
    chains = [f"{chain} ACCEPT [0:0]" for chain in re.findall(r"^(:\w+) (?:ACCEPT|DROP)", table, re.MULTILINE)]
    return "\n".join([name, *chains, "COMMIT"])


def _links() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


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
    if reason := obstacle():
        pytest.skip(f"NOT TESTED: the compose file was not run: {reason}")
    programs = {"envoy": "envoy", "prometheus": "prometheus", "alertmanager": "prometheus-alertmanager"}
    paths = {name: program(each) for name, each in programs.items()}
    scratch = tmp_path_factory.mktemp("engine")
    with container_engine(CACHE, scratch) as engine:
        if not engine.has(BASE):
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
