"""Envoy with the configuration of deploy/envoy, before servers on ports of this machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import yaml
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "envoy"
START_SECONDS = 60.0


def program() -> str | None:
    """Return the path of Envoy, which `make e2e` installs, or None."""
    # The command of the package is a script around the program.
    installed = (ROOT / ".venv-peers" / "envoy").glob("lib/python3*/site-packages/envoy/_bin/envoy")
    return next(map(str, installed), None) or shutil.which("envoy")


def configuration(file: str = "envoy.yaml") -> dict[str, Any]:
    """Return a configuration as it is."""
    read: dict[str, Any] = yaml.safe_load((FOLDER / file).read_text(encoding="utf-8"))
    return read


def manager(configuration: dict[str, Any], name: str = "callers") -> dict[str, Any]:
    """Return the settings of HTTP of a listener."""
    (listener,) = [each for each in configuration["static_resources"]["listeners"] if each["name"] == name]
    found: dict[str, Any] = listener["filter_chains"][0]["filters"][0]["typed_config"]
    return found


def cluster(configuration: dict[str, Any], name: str = "servers") -> dict[str, Any]:
    """Return a cluster."""
    (found,) = [each for each in configuration["static_resources"]["clusters"] if each["name"] == name]
    return dict(found)


def local(clusters: Mapping[str, Sequence[str]], *, file: str = "envoy.yaml", folder: Path = FOLDER) -> dict[str, Any]:
    """Return a configuration with addresses of this machine, any free ports, and the descriptors where they lie.

    Args:
        clusters: Addresses of the servers of each cluster, HOST:PORT.
        file: Name of the configuration.
    """
    changed = configuration(file)
    for endpoint in (changed["admin"], *changed["static_resources"]["listeners"]):
        endpoint["address"]["socket_address"] = {"address": "127.0.0.1", "port_value": 0}
    for each in manager(changed)["http_filters"]:
        if "proto_descriptor" in each["typed_config"]:
            each["typed_config"]["proto_descriptor"] = str(folder / "descriptors.binpb")
    for each in changed["static_resources"]["clusters"]:
        if each["name"] in clusters:
            each.pop("cluster_type", None)
            servers = [_endpoint(server) for server in clusters[each["name"]]]
            each["load_assignment"]["endpoints"] = [{"lb_endpoints": servers}]
    return changed


def _endpoint(server: str) -> dict[str, Any]:
    host, _, port = server.rpartition(":")
    return {"endpoint": {"address": {"socket_address": {"address": host, "port_value": int(port)}}}}


class Proxy:
    """An Envoy process before some servers: `with Proxy(program, servers=addresses) as proxy`."""

    def __init__(self, program: str, *, file: str = "envoy.yaml", **clusters: Sequence[str]) -> None:
        """Take what to start.

        Args:
            file: Name of the configuration.
            **clusters: Addresses of the servers of each cluster, HOST:PORT.
        """
        self._program, self._file, self._clusters = program, file, clusters
        self.address = ""
        """Address for callers, HOST:PORT."""

    def __enter__(self) -> Self:
        """Start Envoy, and wait until it finds all servers healthy."""
        self._folder = Path(tempfile.mkdtemp())
        (self._folder / "envoy.yaml").write_text(json.dumps(local(self._clusters, file=self._file)), encoding="utf-8")
        flags = ["-c", "envoy.yaml", "--admin-address-path", "admin", "--disable-hot-restart", "--concurrency", "1"]
        with (self._folder / "log").open("wb") as log:
            command = [self._program, *flags, "--log-level", "warning"]
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop Envoy."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder)

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of the series with this name and these labels."""
        families = text_string_to_metric_families(self._ask("/stats/prometheus"))
        # The parser adds what Envoy's counters lack.
        names = {name, f"{name}_total"}
        samples = [sample for family in families for sample in family.samples if sample.name in names]
        return sum(sample.value for sample in samples if sample.labels.items() >= labels.items())

    def _wait(self) -> None:
        until = time.monotonic() + START_SECONDS
        while not self._is_ready():
            log = (self._folder / "log").read_text(encoding="utf-8")
            if self._process.poll() is not None or time.monotonic() > until:
                raise ChildProcessError(f"Envoy is not ready: {log}")
            time.sleep(0.05)
        (listener,) = [each for each in self._listeners() if each["name"] == "callers"]
        self.address = f"127.0.0.1:{listener['local_address']['socket_address']['port_value']}"

    def _is_ready(self) -> bool:
        if not (self._folder / "admin").exists():
            return False
        try:
            healthy = {
                name: self.value("envoy_cluster_membership_healthy", envoy_cluster_name=name) for name in self._clusters
            }
        except urllib.error.URLError:
            return False
        all_of_them = {name: len(servers) for name, servers in self._clusters.items()}
        return healthy == all_of_them and bool(self._listeners())

    def _listeners(self) -> list[dict[str, Any]]:
        listeners: list[dict[str, Any]] = json.loads(self._ask("/listeners?format=json")).get("listener_statuses", [])
        return listeners

    def _ask(self, path: str) -> str:
        address = (self._folder / "admin").read_text(encoding="utf-8")
        with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as response:
            return str(response.read().decode())
