"""Dashboards and rules on a real Prometheus that scrapes a real server under calls: every panel shows something."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest
import trustme
import yaml
from api_keys import add_key
from bundle_versions import copy_version
from free_ports import LOOPBACK, free_port
from observed import DASHBOARDS, RULES, Target, targets, variables

from xuanzang.client import TLSConfig, TranslationClient, TranslationError

BUNDLE = max((Path(__file__).parents[2] / "server/models/zh-en").iterdir(), key=lambda folder: int(folder.name))
LIVE, OTHER = int(BUNDLE.name), int(BUNDLE.name) + 1
TEXT = "今天天气很好，我们去公园吧。我有一只猫。"
Check = Callable[[], None]
PAUSE_SECONDS = 0.5
"""Between rounds of calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A running server."""

    address: str
    metrics: str
    """Address of its metrics, HOST:PORT."""
    admin: str
    root: bytes
    """Certificate of its authority, PEM."""
    keys: tuple[str, str]
    """A key for everything, and one for one request a minute."""

    def round(self) -> None:
        """Call in every way that a panel shows, so that some calls are answered and others are refused."""
        with self.client(self.keys[0]) as client:
            client.translate([TEXT] * 8)
            list(client.translate_stream([TEXT] * 4))
            list(client.translate_progressively(TEXT))
            for faulty in ({"beam_size": 17}, {"model": "missing"}, {"timeout": 0.02}):
                with suppress(TranslationError):
                    client.translate([TEXT] * 64, **faulty)
        for key in (self.keys[1], "xz_unknown_key"):
            with self.client(key) as client, suppress(TranslationError):
                client.translate_one(TEXT, timeout=0.5)

    def client(self, key: str) -> TranslationClient:
        """Return a client with a key."""
        return TranslationClient(self.address, api_key=key, tls=TLSConfig(root_certificates=self.root))


@contextmanager
def called_service(folder: Path) -> Iterator[tuple[Service, Check]]:
    """Run a server with two versions of a model, and call it all the time.

    Args:
        folder: Folder for its models, keys and certificates.

    Yields:
        The server, and a function that raises what ended the calls.
    """
    for version in (LIVE, OTHER):
        copy_version(BUNDLE, folder / "models" / BUNDLE.parent.name, version)
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    file = folder / "keys.json"
    keys = add_key(file, "everything"), add_key(file, "little", "--requests-per-minute=1")
    with ExitStack() as stack:
        logged = stack.enter_context(server(folder))
        address, metrics = (f"127.0.0.1:{logged['listening'][port]}" for port in ("port", "metrics_port"))
        admin = f"127.0.0.1:{logged['administration']['port']}"
        root = authority.cert_pem.bytes()
        service = Service(address=address, metrics=metrics, admin=admin, root=root, keys=keys)
        yield service, stack.enter_context(repeated(service))


@contextmanager
def server(folder: Path) -> Iterator[dict[str, dict[str, Any]]]:
    """Run the server's process, and yield the lines of its log by event, up to its last listener."""
    flags = [f"--models={folder / 'models'}", f"--keys-file={folder / 'keys.json'}", "--promotion=manual"]
    flags += [f"--tls-certificate={folder / 'server.pem'}", f"--tls-key={folder / 'server.pem'}", "--workers=2"]
    flags += [f"--{name}address=127.0.0.1:0" for name in ("", "metrics-", "admin-")]
    flags += [f"--model-workers={BUNDLE.parent.name}=1", "--no-anonymous"]
    command = [sys.executable, "-m", "xuanzang.server", *flags]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            yield until(folder / "log", "administration", process)
        finally:
            process.kill()


def until(log: Path, event: str, process: subprocess.Popen[bytes]) -> dict[str, dict[str, Any]]:
    """Read a log again and again until it has an event, and return its lines by event."""
    while True:
        lines = [
            json.loads(line) for line in log.read_text(encoding="utf-8").splitlines(keepends=True) if line[-1] == "\n"
        ]
        found = {line["event"]: line for line in lines}
        if event in found:
            return found
        with suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"the server ended with {process.wait(0.1)}: {lines[-3:]}")


@contextmanager
def repeated(service: Service) -> Iterator[Check]:
    """Make rounds of calls in a thread, and yield a function that raises what ended them."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(PAUSE_SECONDS):
            service.round()

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        try:
            yield lambda: working.result() if working.done() else None
        finally:
            stop.set()


FOLDER = Path(__file__).parents[2] / "deploy" / "prometheus"
START_SECONDS = 60.0


def configuration(target: str) -> dict[str, Any]:
    """Return the configuration of the compose file with one server, other intervals, and no other containers.

    Args:
        target: Address of a server's metrics, HOST:PORT.
    """
    changed: dict[str, Any] = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))
    changed["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    changed["rule_files"] = [str(FOLDER / "rules" / "*.yml")]
    del changed["alerting"]
    [ours] = [job for job in changed["scrape_configs"] if job["job_name"] == "xuanzang"]
    del ours["dns_sd_configs"]
    changed["scrape_configs"] = [ours | {"static_configs": [{"targets": [target]}]}]
    return changed


class Prometheus:
    """A Prometheus process: `with Prometheus(program, target, folder) as prometheus`."""

    def __init__(self, program: str, target: str, folder: Path) -> None:
        """Take what to start.

        Args:
            target: Address of a server's metrics, HOST:PORT.
            folder: Folder of its configuration, data and log.
        """
        (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration(target)), encoding="utf-8")
        self._address = f"{LOOPBACK}:{free_port()}"
        flags = (f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={self._address}")
        self._command = [program, f"--config.file={folder / 'prometheus.yml'}", *flags]
        self._log = folder / "log"

    def __enter__(self) -> Self:
        """Start it, and wait until it answers."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        until = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > until:
                self.__exit__()
                raise ChildProcessError(f"Prometheus does not start: {self._log.read_text(encoding='utf-8')[-2000:]}")
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self._process.kill()
        self._process.wait()

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Return the series of an expression now: `metric` and `value`, seconds and a number as text."""
        found: list[dict[str, Any]] = self.ask("query", query=expr)["result"]
        return found

    def values(self, label: str, series: str) -> list[str]:
        """Return the values of a label of some series."""
        found: list[str] = self.ask(f"label/{label}/values", **{"match[]": series})
        return found

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer of the API.

        Args:
            path: Path below /api/v1.
        """
        return json.loads(self._get(f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}"))["data"]

    def _is_ready(self) -> bool:
        try:
            self._get("/-/ready")
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://{self._address}{path}", timeout=30) as answer:
            body: bytes = answer.read()
            return body


pytestmark = pytest.mark.e2e

SECONDS = 240.0
"""Until all panels of a dashboard have shown something; they take ten to twenty where nothing else runs."""
PER_DASHBOARD = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A Prometheus that scrapes a server under calls."""

    prometheus: Prometheus
    check: Check

    def wait(self, missing: Callable[[], object]) -> None:
        """Ask until nothing is missing."""
        until = time.monotonic() + SECONDS
        while found := missing():
            self.check()
            assert time.monotonic() < until, found
            time.sleep(0.5)


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("NOT TESTED: dashboards with data: there is no prometheus: apt-get install prometheus")
    data = tmp_path_factory.mktemp("prometheus")
    with (
        called_service(tmp_path_factory.mktemp("service")) as (service, check),
        Prometheus(program, service.metrics, data) as prometheus,
    ):
        yield Observed(prometheus=prometheus, check=check)


def shows(target: Target, series: list[dict[str, Any]]) -> bool:
    """Return whether there are numbers, and the labels by which the legend calls them."""
    labels = set(re.findall(r"{{(\w+)}}", target.legend))
    return any(math.isfinite(float(each["value"][1])) and labels <= each["metric"].keys() for each in series)


@PER_DASHBOARD
def test_every_panel_shows_numbers_of_a_server_under_calls(dashboard: Path, observed: Observed) -> None:
    empty = targets(dashboard)

    def missing() -> list[str]:
        empty[:] = [target for target in empty if not shows(target, observed.prometheus.query(target.expr))]
        return [f"{target.panel}: {target.expr}" for target in empty]

    observed.wait(missing)


@PER_DASHBOARD
def test_every_variable_of_a_dashboard_has_values(dashboard: Path, observed: Observed) -> None:
    asked = variables(dashboard)
    observed.wait(lambda: [name for name, series, label in asked if not observed.prometheus.values(label, series)])


def test_prometheus_evaluates_every_rule_without_an_error(observed: Observed) -> None:
    observed.wait(lambda: [rule["name"] for rule in rules(observed.prometheus) if rule["health"] == "unknown"])
    assert [rule["lastError"] for rule in rules(observed.prometheus) if rule["health"] != "ok"] == []
    assert len(rules(observed.prometheus)) == len(RULES)


def rules(prometheus: Prometheus) -> list[dict[str, Any]]:
    return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
