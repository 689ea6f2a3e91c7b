"""A server process under attack, a caller beside it, and what must hold throughout."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from free_ports import free_port
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client.parser import text_string_to_metric_families
from replicas import Replica

from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.translation.v1 import translation_pb2_grpc

TEXT = "我有一只猫。"


@dataclass(kw_only=True)
class Attacked:
    """A server process and a caller with a connection of its own."""

    process: asyncio.subprocess.Process
    port: int
    metrics_port: int
    stub: Any
    log: list[dict[str, Any]] = field(default_factory=list)
    """Lines after the start."""
    expected: str = ""
    """Translation of `TEXT`, from before the attack."""

    async def translated(self) -> str:
        """Translate the text as a well-behaved caller."""
        options = pb.DecodingOptions(max_target_length=8)
        response = await self.stub.TranslateText(
            pb.TranslateTextRequest(contents=[TEXT], settings=pb.TranslationSettings(options=options)), timeout=30
        )
        text: str = response.translations[0].hypotheses[0].text
        return text

    async def check(self) -> None:
        """Check that an old and a new connection get the right answers, and that nothing unexpected happened."""
        assert self.process.returncode is None
        assert await self.translated() == self.expected
        options = (("grpc.use_local_subchannel_pool", 1),)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self.port}", options) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=30)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        assert self.faults() == []
        for code in ("INTERNAL", "UNKNOWN"):
            assert await asyncio.to_thread(self.value, "grpc_server_handled_total", grpc_code=code) == 0

    def faults(self) -> list[str]:
        """Return the ends of the log lines that are errors, warnings or no JSON."""
        unexpected = [line for line in self.log if line["level"] not in {"debug", "info"} or "exception" in line]
        return [f"{line['event']}: {line.get('exception', '')[-300:]}" for line in unexpected]

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of the series with this name and these labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30) as response:
            families = list(text_string_to_metric_families(response.read().decode()))
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        return sum(sample.value for sample in samples if sample.labels.items() >= labels.items())

    async def read_log(self) -> None:
        """Collect the lines of the log until the process ends."""
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            try:
                self.log.append(json.loads(line))
            except ValueError:
                self.log.append({"level": "foreign", "event": line.decode(errors="replace")})


@asynccontextmanager
async def attacked(models: Path, *flags: str) -> AsyncIterator[Attacked]:
    """Start a server process and a caller."""
    addresses = ("--address=127.0.0.1:0", "--metrics-address=127.0.0.1:0")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "xuanzang.server", f"--models={models}", "--workers=1", *addresses, *flags),
        stderr=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if not name.startswith(("XUANZANG_", "GRPC_"))},
    )
    try:
        assert process.stderr is not None
        seen: dict[str, dict[str, Any]] = {}
        while "serving" not in seen:
            line = json.loads(await process.stderr.readline())
            seen[line["event"]] = line
        ports = {"port": seen["listening"]["port"], "metrics_port": seen["listening"]["metrics_port"]}
        async with grpc.aio.insecure_channel(f"127.0.0.1:{ports['port']}") as channel:
            server = Attacked(process=process, stub=translation_pb2_grpc.TranslationServiceStub(channel), **ports)
            reading = asyncio.create_task(server.read_log())
            server.expected = await server.translated()
            yield server
            process.terminate()
            assert await process.wait() == 0
            await reading
            assert server.faults() == []
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture
def attack(tiny_bundle_repository: Path) -> Any:
    """Start a server to attack: `async with attack("--max-connections=9") as server`."""

    def start(*flags: str) -> Any:
        return attacked(tiny_bundle_repository, *flags)

    return start


@pytest.fixture
def start(tiny_bundle_repository: Path) -> Iterator[Callable[..., Replica]]:
    """Return a function that starts a replica, on a port to which another may return or a given one."""
    started: list[Replica] = []

    def start(port: int = 0, *, models: Path = tiny_bundle_repository) -> Replica:
        started.append(Replica(models, port or free_port()))
        return started[-1]

    yield start
    for replica in started:
        replica.end()


@pytest.fixture
def replicas(start: Callable[..., Replica]) -> tuple[Replica, Replica]:
    pair = start(), start()
    for replica in pair:
        replica.ready()
    return pair
