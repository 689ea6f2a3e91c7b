"""Gateways for tests, on a free port: in a thread with an event loop of its own, or as a process."""

from __future__ import annotations

import asyncio
import json as json_module
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.message import Message
from typing import Any
from urllib.parse import urlencode

import uvicorn

from xuanzang.gateway.app import Gateway
from xuanzang.gateway.entry import patience
from xuanzang.gateway.serving import GatewayServer, listener
from xuanzang.gateway.settings import Settings

# A gateway in the process of its caller, and often of its server, waits for them: on a busy machine longer than a
# second, without which it would look whether the server is lost.
patience._FIRST_SECONDS = 60.0

_BOUNDARY = "xuanzang-boundary"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Answer of a gateway."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json_module.loads(self.body)


@dataclass(frozen=True, kw_only=True)
class RunningGateway:
    """A gateway that serves."""

    port: int
    metrics_port: int | None = None
    grpc_port: int | None = None

    @property
    def url(self) -> str:
        """Address without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def grpc_address(self) -> str:
        """Address of gRPC."""
        return f"127.0.0.1:{self.grpc_port}"

    async def get(self, path: str, **headers: str) -> Answer:
        """Send GET; in names of headers _ stands for -."""
        return await asyncio.to_thread(self._send, "GET", path, None, _named(headers))

    async def post(
        self,
        path: str,
        *,
        json: Any = None,
        form: Sequence[tuple[str, str]] = (),
        multipart: Mapping[str, str] | None = None,
        data: bytes | None = None,
        **headers: str,
    ) -> Answer:
        """Send POST with one kind of body; in names of headers _ stands for -."""
        if json is not None:
            data, kind = json_module.dumps(json).encode(), "application/json"
        elif multipart is not None:
            data, kind = _multipart(multipart), f"multipart/form-data; boundary={_BOUNDARY}"
        else:
            data, kind = data if data is not None else urlencode(form).encode(), "application/x-www-form-urlencoded"
        sent = {"content-type": kind} | _named(headers)
        return await asyncio.to_thread(self._send, "POST", path, data, sent)

    def _send(self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]) -> Answer:
        request = urllib.request.Request(self.url + path, data=data, headers=dict(headers), method=method)
        try:
            with urllib.request.urlopen(request) as response:
                return _answer(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return _answer(error.code, error.headers, error.read())


@asynccontextmanager
async def running_gateway(server: str, **settings: Any) -> AsyncIterator[RunningGateway]:
    """Run a gateway in a thread, as the clients of the tests block theirs.

    Args:
        settings: Settings by name.
    """
    chosen = Settings(server=server, address="127.0.0.1:0", **settings)
    started = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()
    stop: list[uvicorn.Server] = []
    with listener(chosen.address) as listening:

        async def run() -> None:
            gateway = Gateway(chosen)
            port = gateway.grpc.port if gateway.grpc else None
            server = _Server(gateway, lambda: loop.call_soon_threadsafe(started.set_result, port))
            stop.append(server)
            await server.serve(sockets=[listening])

        thread = threading.Thread(target=asyncio.run, args=(run(),))
        thread.start()
        grpc_port = await started
        try:
            yield RunningGateway(port=listening.getsockname()[1], grpc_port=grpc_port)
        finally:
            stop[0].should_exit = True
            await asyncio.to_thread(thread.join)


async def started_gateway(*flags: str) -> asyncio.subprocess.Process:
    """Start a gateway process."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "xuanzang.gateway", *flags, stderr=pipe)


@asynccontextmanager
async def gateway_process(*flags: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, RunningGateway]]:
    """Run a gateway process; its log is read up to the line that it listens.

    Args:
        flags: Flags, but for the address.
    """
    process = await started_gateway("--address=127.0.0.1:0", *flags)
    try:
        assert process.stderr is not None
        listening = json_module.loads(await process.stderr.readline())
        yield (
            process,
            RunningGateway(
                port=listening["port"], metrics_port=listening["metrics_port"], grpc_port=listening.get("grpc_port")
            ),
        )
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class _Server(GatewayServer):
    """Server that reports that it has started."""

    def __init__(self, gateway: Gateway, report: Any) -> None:
        super().__init__(gateway)
        self._report = report

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets=sockets)
        self._report()


def _answer(status: int, headers: Message, body: bytes) -> Answer:
    return Answer(status=status, headers={name.lower(): value for name, value in headers.items()}, body=body)


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def _multipart(fields: Mapping[str, str]) -> bytes:
    parts = [
        f'--{_BOUNDARY}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    return ("".join(parts) + f"--{_BOUNDARY}--\r\n").encode()
