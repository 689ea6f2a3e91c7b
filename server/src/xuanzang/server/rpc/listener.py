"""The listener: grpc.aio's server, guarded against requests that end its serving loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, NoReturn

import grpc
from grpc._cython import cygrpc
from grpc.aio._server import Server
from typing_extensions import override

_LOGGER = logging.getLogger(__name__)

Option = tuple[str, Any]


class ListenerEndedError(OSError):
    """The serving loop of gRPC ended although nobody stopped it: the process must be replaced."""


class _GuardedServer(cygrpc.AioServer):  # type: ignore[misc]  # compiled, without types
    """gRPC's server, with a serving loop that only RPCs of known methods reach.

    The loop decodes the path of every other RPC as UTF-8, and a path that is not UTF-8 ends it. Known methods are
    registered with gRPC's core, which compares their paths itself and hands those RPCs over separately.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *arguments: Any) -> None:
        super().__init__(loop, *arguments)
        self.ended: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._refusing: set[asyncio.Task[None]] = set()

    def _make_request_call_future(self, method: bytes | None) -> asyncio.Future[object]:
        """Ask for the next RPC of a method; None: of all unknown ones."""
        # A loop that ends cancels what it awaits, but gRPC's core would still write to the memory of the request.
        request: asyncio.Task[object] = super()._make_request_call_future(method)
        request.add_done_callback(_retrieve)
        return asyncio.shield(request)

    async def _request_call(self) -> NoReturn:
        """Refuse RPCs of unknown methods; the serving loop, which awaits one of them, never gets it."""
        while True:
            call = await super()._request_call()
            # The schedule also waits for the caller to close, as it does for other RPCs.
            task = self._loop.create_task(
                cygrpc._schedule_rpc_coro(self._refuse(call), call, self._loop, "unknown")  # noqa: SLF001
            )
            self._refusing.add(task)
            task.add_done_callback(self._refusing.discard)

    async def _refuse(self, call: object) -> None:
        context = cygrpc._ServicerContext(call, None, None, self._loop)  # noqa: SLF001
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "the server has no such method")

    def _serving_task_crash_handler(self, task: asyncio.Task[None]) -> None:
        """Report the end of the serving loop; gRPC would cancel the RPCs of every caller."""
        if task.cancelled() or task.exception() is None or self.ended.done():
            return
        _LOGGER.error("the serving loop ended", exc_info=task.exception())
        self.ended.set_result(None)

    async def _start_shutting_down(self) -> None:
        try:
            await super()._start_shutting_down()
        except Exception:
            # It awaits the serving loop, whose error has been reported.
            if not self.ended.done():
                raise


def _retrieve(request: asyncio.Task[object]) -> None:
    """Take note of the error with which gRPC ends its requests at the stop; otherwise asyncio logs it."""
    if not request.cancelled():
        request.exception()


class Listener(Server):
    """A server of grpc.aio that answers RPCs of unknown methods itself, and reports the end of its serving loop."""

    @override
    def __init__(self, *, interceptors: Sequence[grpc.aio.ServerInterceptor], options: Sequence[Option]) -> None:
        """Construct a server without services and ports; call it inside a running event loop.

        Args:
            interceptors: Interceptors, outermost first.
            options: Channel arguments of gRPC.
        """
        # The base class would construct an unguarded server here.
        self._loop = cygrpc.get_working_loop()
        self._server = _GuardedServer(self._loop, None, (), tuple(interceptors), tuple(options), None)

    async def ended(self) -> None:
        """Wait until the serving loop ends by an error; RPCs in progress go on, new ones are not answered."""
        await self._server.ended
