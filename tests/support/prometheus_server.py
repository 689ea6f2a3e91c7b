"""A real Prometheus with the configuration and rules of deploy/prometheus, which scrapes one server every second."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

import yaml

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
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._address = f"127.0.0.1:{probe.getsockname()[1]}"
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


def program() -> str | None:
    """Return the path of Prometheus, or None."""
    return shutil.which("prometheus")
