"""Real servers on free ports, in the event loop of the test or as separate processes."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
import pytest_asyncio
from gateways import RunningGateway, running_gateway
from hub_user import HubUser
from prometheus_client.parser import text_string_to_metric_families

from xuanzang.client import AsyncTranslationClient
from xuanzang.server.bootstrap import bootstrap
from xuanzang.server.lifecycle import Server
from xuanzang.server.settings import Settings

LOOPBACK = "127.0.0.1"
BUNDLED = Path(__file__).parents[2] / "server" / "models"

shared = pytest_asyncio.fixture(scope="module", loop_scope="module")
"""Makes an asynchronous fixture that all tests of a file share."""
fixture = pytest_asyncio.fixture(loop_scope="module")
"""Makes an asynchronous fixture of each test."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the asynchronous tests of a file share an event loop, and with it servers."""
    for item in items:
        if Path(__file__).parent in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest.fixture(scope="session", autouse=True)
def no_settings_of_shared_servers_from_outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what the developer has set out of servers that several tests share."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("XUANZANG_")]:
            patch.delenv(name)
        patch.setenv("XUANZANG_TRIED_BUNDLES", str(tmp_path_factory.getbasetemp() / "tried-bundles"))
        yield


@dataclass(frozen=True, kw_only=True)
class RunningServer:
    """A server in the event loop of the test."""

    server: Server
    address: str
    metrics_url: str

    async def scrape(self) -> Scrape:
        """Fetch the metrics."""
        return Scrape(await asyncio.to_thread(_get, self.metrics_url))

    async def until_metric(self, name: str) -> None:
        """Fetch the metrics until one is not 0."""
        await _until_metric(self.metrics_url, name)


class Scrape:
    """Samples of one fetch of the metrics."""

    def __init__(self, text: str) -> None:
        self._samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of the series with this name and these labels."""
        matching = [item.value for item in self._samples if item.name == name and item.labels.items() >= labels.items()]
        assert matching, f"no series {name} {labels}"
        return sum(matching)

    def since(self, before: Scrape) -> Scrape:
        """Return what has come to an earlier fetch; a shared server has counted for other tests, too."""
        earlier = {(item.name, *item.labels.items()): item.value for item in before._samples}
        grown = Scrape("")
        for item in self._samples:
            value = item.value - earlier.get((item.name, *item.labels.items()), 0.0)
            grown._samples.append(item._replace(value=value))
        return grown


@dataclass(kw_only=True)
class ServerProcess:
    """A server in a separate process."""

    process: asyncio.subprocess.Process
    events: list[dict[str, Any]] = field(default_factory=list)
    """Log lines read so far."""

    @property
    def address(self) -> str:
        """Host and port of the gRPC service."""
        return f"{LOOPBACK}:{self.logged('listening')[0]['port']}"

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Return the log lines with this event."""
        return [line for line in self.events if line["event"] == event]

    async def until(self, event: str) -> dict[str, Any]:
        """Read the log up to an event and return its line."""
        while not self.logged(event):
            await self.until_next()
        return self.logged(event)[0]

    async def until_next(self) -> None:
        """Read the next line of the log."""
        assert self.process.stderr is not None
        line = await self.process.stderr.readline()
        assert line, f"the server has ended: {self.events}"
        self.events.append(json.loads(line))

    async def until_metric(self, name: str) -> None:
        """Fetch the metrics until one is not 0."""
        await _until_metric(f"http://{LOOPBACK}:{self.logged('listening')[0]['metrics_port']}/metrics", name)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, read the rest of the log and return the exit status."""
        self.process.send_signal(number)
        return await self.ended()

    async def ended(self) -> int:
        """Read the rest of the log and return the exit status."""
        assert self.process.stderr is not None
        self.events += [json.loads(line) async for line in self.process.stderr]
        return await self.process.wait()


class StartServer(Protocol):
    """Function that starts a server in the event loop of the test."""

    def __call__(self, *, load: bool = True, **settings: Any) -> AbstractAsyncContextManager[RunningServer]: ...


class StartProcess(Protocol):
    """Function that starts a server in a separate process."""

    def __call__(self, *flags: str, descriptors: int | None = None) -> AbstractAsyncContextManager[ServerProcess]: ...


@pytest.fixture(scope="session")
def start_server(tiny_bundle_repository: Path, provider: str) -> StartServer:
    """Return a function that starts a server: `async with start_server(max_batch_sentences=1) as running`."""

    @asynccontextmanager
    async def start(*, load: bool = True, **settings: Any) -> AsyncIterator[RunningServer]:
        server = bootstrap(
            Settings(
                **{
                    "models": tiny_bundle_repository,
                    "address": f"{LOOPBACK}:0",
                    "metrics_address": f"{LOOPBACK}:0",
                    "provider": provider,
                    "workers": 1,
                    **settings,
                }
            )
        )
        await server.listen()
        try:
            if load:
                await server.load()
            yield RunningServer(
                server=server,
                address=f"{LOOPBACK}:{server.rpc.port}",
                metrics_url=f"http://{LOOPBACK}:{server.metrics_endpoint.port}/metrics",
            )
        finally:
            await server.drain()

    return start


@pytest.fixture(scope="session")
def bundled_zh_en(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a models directory that holds only the bundled model from Chinese to English."""
    models = tmp_path_factory.mktemp("bundled")
    (models / "zh-en").symlink_to(BUNDLED / "zh-en")
    return models


@pytest.fixture
def repository(tiny_bundle_repository: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder with the tiny model, to be changed."""
    return Path(shutil.copytree(tiny_bundle_repository, tmp_path / "models"))


@shared
async def running(start_server: StartServer) -> AsyncIterator[RunningServer]:
    """Yield a server with the tiny model and default settings, for tests that neither stop it nor count all it does."""
    async with start_server() as server:
        yield server


@shared
async def gateway(running: RunningServer) -> AsyncIterator[RunningGateway]:
    """Yield a gateway before `running`, which speaks gRPC, too."""
    async with running_gateway(running.address, grpc_address=f"{LOOPBACK}:0") as started:
        yield started


@shared
async def client(running: RunningServer) -> AsyncIterator[AsyncTranslationClient]:
    """Yield a client of `running`."""
    async with AsyncTranslationClient(running.address) as translator:
        yield translator


@pytest.fixture(scope="session")
def start_process(tiny_bundle_repository: Path, provider: str) -> StartProcess:
    """Return a function that starts a server process: `async with start_process("--workers=2") as process`."""

    @asynccontextmanager
    async def start(*flags: str, descriptors: int | None = None) -> AsyncIterator[ServerProcess]:
        limit = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (descriptors,) * 2) if descriptors else None
        defaults = (f"--models={tiny_bundle_repository}", "--workers=1", f"--provider={provider}")
        addresses = (f"--address={LOOPBACK}:0", f"--metrics-address={LOOPBACK}:0")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "xuanzang.server", *defaults, *addresses, *flags),
            stderr=asyncio.subprocess.PIPE,
            # Without settings from outside, which the tests of all rooms do without.
            env=dict(os.environ),
            preexec_fn=limit,
        )
        try:
            yield ServerProcess(process=process)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    return start


async def _until_metric(url: str, name: str) -> None:
    async with asyncio.timeout(60):
        while Scrape(await asyncio.to_thread(_get, url)).value(name) == 0:
            pass


def _get(url: str) -> str:
    with urllib.request.urlopen(url) as response:
        text: str = response.read().decode()
        return text


_EACH = """
import contextlib, io, json, sys
from xuanzang.command.__main__ import main
for arguments in json.load(sys.stdin):
    written = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(written[0]), contextlib.redirect_stderr(written[1]):
        try:
            status = main(arguments)
        except SystemExit as ended:
            status = ended.code
    print(json.dumps([arguments, status, *(each.getvalue() for each in written)]))
"""


def run_each(user: HubUser, *commands: Sequence[str], **variables: str) -> list[subprocess.CompletedProcess[str]]:
    """Run commands of a user one after the other in a process that imports what they need once."""
    done = subprocess.run(
        [sys.executable, "-c", _EACH],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=False,
        env=user.environment | variables,
        cwd=user.home,
    )
    assert done.returncode == 0, done.stderr
    return [subprocess.CompletedProcess(*json.loads(line)) for line in done.stdout.splitlines()]
