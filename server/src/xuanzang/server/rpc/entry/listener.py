"""The listener: grpc.aio's server, guarded against requests that end its serving loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

import grpc
from grpc._cython import cygrpc
from grpc.aio._server import Server
from typing_extensions import override

from xuanzang.server.rpc.context import Context

_LOGGER = logging.getLogger(__name__)

Option = tuple[str, Any]

# RPCs of a method that gRPC's core may hand over at a time. With one, as grpc.aio asks, a busy loop sees one in each of
# its turns, while the others wait unseen.
_REQUESTED_RPCS = 32


class Refusal(NamedTuple):
    """Answer to an RPC that is not read."""

    code: grpc.StatusCode
    message: str
    trailers: tuple[tuple[str, str | bytes], ...]


Screen = Callable[[str, Context], Refusal | None]
"""Decides by its method and its context whether an RPC is refused before its message is read."""


class ListenerEndedError(OSError):
    """The serving loop of gRPC ended although nobody stopped it: the process must be replaced."""


class _GuardedServer(cygrpc.AioServer):  # type: ignore[misc]  # compiled, without types
    """gRPC's server, with a serving loop that only RPCs of known methods reach.

    The loop decodes the path of every other RPC as UTF-8, and a path that is not UTF-8 ends it. Known methods are
    registered with gRPC's core, which compares their paths itself and hands those RPCs over separately.

    RPCs of screened methods pass the loop by: those that are refused unread take a sixth of the time of others.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        interceptors: tuple[grpc.aio.ServerInterceptor, ...],
        options: tuple[Option, ...],
        *,
        screened: Collection[str],
        screen: Screen,
    ) -> None:
        super().__init__(loop, None, (), interceptors, options, None)
        self.ended: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._interceptors_of_screened = interceptors
        self._screened = {method.encode() for method in screened}
        self._screen = screen
        self._handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add_registered_method_handlers(self, method_handlers: dict[str, grpc.RpcMethodHandler[Any, Any]]) -> None:
        """Register methods with gRPC's core."""
        super().add_registered_method_handlers(method_handlers)
        self._handlers.update(method_handlers)

    def resolve_handler(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        """Find the handler of a screened RPC; gRPC calls it."""
        return self._handlers[details.method]

    async def _request_registered_call(self, method: bytes) -> object:
        """Wait for the next RPC of a method; for screened ones, until the server stops."""
        if method not in self._screened:
            return await super()._request_registered_call(method)
        accepting = [self._start(self._accept(method)) for _ in range(_REQUESTED_RPCS)]
        for task in accepting:
            task.add_done_callback(_retrieve)
        ended, _ = await asyncio.wait(accepting, return_when=asyncio.FIRST_COMPLETED)
        # An error: that with which gRPC ends its requests, or an unexpected one, which ends the serving loop.
        return ended.pop().result()

    async def _accept(self, method: bytes) -> NoReturn:
        """Handle RPCs of a method one after the other, each without waiting for its end."""
        name = method.decode()
        # Found once: for each RPC gRPC would find it anew, and leave objects behind that hold each other.
        handler = await cygrpc._find_method_handler(name, (), self, self._interceptors_of_screened)  # noqa: SLF001
        handle = _handling(handler)
        while True:
            call = await super()._request_registered_call(method)
            refusal = self._screen(name, cygrpc._ServicerContext(call, None, None, self._loop))  # noqa: SLF001
            if refusal is None:
                handling = handle(handler, call, self._loop)
                self._start(cygrpc._schedule_rpc_coro(handling, call, self._loop, name))  # noqa: SLF001
            else:
                self._start(self._send(call, refusal))

    async def _send(self, call: object, refusal: Refusal) -> None:
        """Send a refusal and wait for the end of the RPC, in one operation."""
        operations = (
            cygrpc.SendInitialMetadataOperation((), 0),
            cygrpc.SendStatusFromServerOperation(refusal.trailers, refusal.code.value[0], refusal.message, 0),
            cygrpc.ReceiveCloseOnServerOperation(0),
        )
        # An error: the caller is gone.
        with suppress(cygrpc.ExecuteBatchError):
            await cygrpc.execute_batch(call, operations, self._loop)

    def _start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

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
            self._start(cygrpc._schedule_rpc_coro(self._refuse(call), call, self._loop, "unknown"))  # noqa: SLF001

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


def _handling(handler: grpc.RpcMethodHandler[Any, Any]) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return gRPC's function that handles RPCs of a handler's shape."""
    sides = (handler.request_streaming, handler.response_streaming)
    shape = "_".join("stream" if side else "unary" for side in sides)
    function: Callable[..., Coroutine[Any, Any, None]] = getattr(cygrpc, f"_handle_{shape}_rpc")
    return function


def _retrieve(request: asyncio.Task[object]) -> None:
    """Take note of the error with which gRPC ends its requests at the stop; otherwise asyncio logs it."""
    if not request.cancelled():
        request.exception()


class Listener(Server):
    """A server of grpc.aio that answers RPCs of unknown methods itself, and reports the end of its serving loop."""

    @override
    def __init__(
        self,
        *,
        interceptors: Sequence[grpc.aio.ServerInterceptor],
        options: Sequence[Option],
        screened: Collection[str] = (),
        screen: Screen = lambda _method, _context: None,
    ) -> None:
        """Construct a server without services and ports; call it inside a running event loop.

        Args:
            interceptors: Interceptors, outermost first.
            options: Channel arguments of gRPC.
            screened: Methods whose RPCs are screened, such as "/service/Method".
            screen: Refuses RPCs of these methods before they are read.
        """
        # The base class would construct an unguarded server here.
        self._loop = cygrpc.get_working_loop()
        self._server = _GuardedServer(self._loop, tuple(interceptors), tuple(options), screened=screened, screen=screen)

    async def ended(self) -> None:
        """Wait until the serving loop ends by an error; RPCs in progress go on, new ones may not be answered."""
        await self._server.ended
