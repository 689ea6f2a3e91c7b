"""A server with all that the dashboards have panels of, and callers who do all that is counted."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme
from api_keys import add_key
from bundle_versions import copy_version

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
