"""The HTTP endpoint for Prometheus: one thread with its own event loop, and a bounded number of connections."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry, make_wsgi_app

_MAX_CONNECTIONS = 64
_MAX_HEADER_BYTES = 16 * 1024
# A scrape is sent at once; slower ones are not from Prometheus.
_REQUEST_SECONDS = 5.0
_RESPONSE_SECONDS = 10.0

_Headers = list[tuple[str, str]]


class MetricsEndpoint:
    """Answers GET /metrics, one request per connection."""

    def __init__(self, registry: CollectorRegistry, *, host: str, port: int) -> None:
        """Bind the address, or raise OSError, and answer scrapes."""
        self._application = make_wsgi_app(registry)
        # The oldest first. A new connection closes it, so that silent connections keep no scraper out.
        self._connections: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="metrics", daemon=True)
        self._thread.start()
        try:
            self._server = self._run(asyncio.start_server(self._connected, host, port, limit=_MAX_HEADER_BYTES))
        except OSError as error:
            self._end_thread()
            raise OSError(f"cannot serve metrics on {host}:{port}: {error.strerror}") from error
        self.port: int = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Stop answering and free the port; once stopped, do nothing."""
        if self._loop.is_closed():
            return
        self._run(self._close())
        self._end_thread()

    async def _close(self) -> None:
        self._server.close()
        for writer in self._connections.values():
            _abort(writer)
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= _MAX_CONNECTIONS:
            oldest = next(iter(self._connections))
            _abort(self._connections.pop(oldest))
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a callback of asyncio.start_server is a task
        self._connections[task] = writer
        try:
            # Callers that hang up, stall or send no HTTP get no answer.
            with suppress(TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
                await self._answer(reader, writer)
        finally:
            self._connections.pop(task, None)
            _abort(writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_REQUEST_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        status, headers, body = _response(self._application, head.decode("latin-1"))
        fields = "".join(f"{name}: {value}\r\n" for name, value in headers)
        writer.write(f"HTTP/1.1 {status}\r\n{fields}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode())
        writer.write(body)
        async with asyncio.timeout(_RESPONSE_SECONDS):
            await writer.drain()
            writer.close()
            await writer.wait_closed()


def _abort(writer: asyncio.StreamWriter) -> None:
    """End a connection, unless it has ended: asyncio fails to abort one that has sent its last data after `close`."""
    if writer.get_extra_info("socket").fileno() >= 0:
        writer.transport.abort()


def _response(application: Callable[..., Iterable[bytes]], head: str) -> tuple[str, _Headers, bytes]:
    """Answer a request: the metrics, in a format that the caller accepts, or the status of a refusal."""
    request, *fields = head.splitlines()
    method, target, _ = request.split(" ")
    path, _, query = target.partition("?")
    if path != "/metrics":
        return _refusal(HTTPStatus.NOT_FOUND)
    if method != "GET":
        return _refusal(HTTPStatus.METHOD_NOT_ALLOWED)
    environment = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query}
    for name, separator, value in (field.partition(":") for field in fields):
        if separator and name.lower() in {"accept", "accept-encoding"}:
            environment[f"HTTP_{name.upper().replace('-', '_')}"] = value.strip()
    started: list[tuple[str, _Headers]] = []
    body = b"".join(application(environment, lambda status, headers: started.append((status, headers))))
    return *started[0], body


def _refusal(status: HTTPStatus) -> tuple[str, _Headers, bytes]:
    return f"{status.value} {status.phrase}", [("Content-Type", "text/plain")], status.phrase.encode() + b"\n"
