"""The one file that uses private names of grpc: a listener whose RPCs pass grpc.aio's serving loop by.

The serving loop ends with the first path that is no UTF-8. RPCs of methods that are registered with gRPC's core never
reach it. Here each of them is looked at before it is read: to refuse one unread takes a sixth of the time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import grpc
from grpc._cython import cygrpc
from grpc.aio._server import Server
from typing_extensions import override

from xuanzang.server.observation.callers import Sender, sender_of
from xuanzang.server.rpc.errors import Refusal
from xuanzang.serving.fair_start import FairStart
from xuanzang.serving.memory import end_without_memory

_LOGGER = logging.getLogger(__name__)
SUPPORTED_GRPC: Final = "1.85"
"""Minor version of grpcio whose private names are known; `tests/unit/server/rpc/test_grpc_private.py` tries each."""
# RPCs of a method that gRPC's core may hand over in a turn of the loop; grpc.aio asks for one.
_REQUESTED_RPCS = 32
_HEALTH = "/grpc.health."
REFUSAL_SECONDS: Final = 0.005
"""Pause of an address after each refusal of an unread RPC while others call."""
# A failure after the RPC was read is as much work.
_REFUSALS_OF_FAILURE = 4


class Accepted(NamedTuple):
    """Handler of an RPC, which reads its messages, a single one too: gRPC never answers a unary RPC without one."""

    function: Callable[[Any, Any], Coroutine[Any, Any, Any]]
    argument: Any
    encode: Any
    sends_stream: bool


Begin: TypeAlias = "Callable[[str, grpc.aio.ServicerContext[Any, Any], Sender], Refusal | Accepted]"
"""Looks at an RPC that has just arrived, by path, context and sender: refuses it unread, or says what handles it."""


class UnsupportedGrpcError(OSError):
    """Another version of grpcio is installed than the one whose private names are known."""


class _Server(cygrpc.AioServer):  # type: ignore[misc]  # compiled, without types
    """gRPC's server, with a serving loop that no RPC reaches."""

    def __init__(self, loop: asyncio.AbstractEventLoop, begin: Begin, options: tuple[tuple[str, Any], ...]) -> None:
        super().__init__(loop, None, (), (), options, None)
        self.ended: asyncio.Future[None] = loop.create_future()
        self._loop, self._begin = loop, begin
        self._start = FairStart(loop, refusal_seconds=REFUSAL_SECONDS)

    async def _request_registered_call(self, method: bytes) -> object:
        """Accept the RPCs of a method until the server stops; the serving loop, which awaits one, never gets it."""
        accepting = [self._loop.create_task(self._accept(method)) for _ in range(_REQUESTED_RPCS)]
        for task in accepting:
            task.add_done_callback(_retrieve)
        ended, _ = await asyncio.wait(accepting, return_when=asyncio.FIRST_COMPLETED)
        # An error: gRPC's at the end of its requests, or an unexpected one, which ends the serving loop.
        return ended.pop().result()

    async def _accept(self, method: bytes) -> NoReturn:
        """Let RPCs of a method begin, each without waiting for its end."""
        path = method.decode()
        while True:  # Without a local variable for an RPC, which would be held until the next one comes.
            await self._start.room()
            self._take(path, await super()._request_registered_call(method))

    def _take(self, path: str, call: object) -> None:
        """Let an RPC begin when it is the turn of its caller's address."""
        context = cygrpc._ServicerContext(call, None, None, self._loop)
        sender = sender_of(context.peer())
        begin = partial(self._attempt, path, call, context, sender)
        self._start.add(sender.network, begin, is_probe=path.startswith(_HEALTH))

    def _attempt(self, path: str, call: object, context: Any, sender: Sender) -> bool:
        """Begin an RPC, and return whether it was refused; an error ends the serving loop."""
        try:
            return self._begin_one(path, call, context, sender)
        except Exception as error:  # noqa: BLE001 - it is reported
            end_without_memory()
            self._report(error)
            return True

    def _begin_one(self, path: str, call: object, context: Any, sender: Sender) -> bool:
        begun = self._begin(path, context, sender)
        if isinstance(begun, Refusal):
            # In the next turn, one right after the other, so that gRPC writes them together.
            self._loop.call_soon(self._refuse, call, begun)
            return True
        context = cygrpc._ServicerContext(call, None, begun.encode, self._loop)
        handler = call, begun.function, begun.argument, context
        if begun.sends_stream:
            answering = cygrpc._finish_handler_with_stream_responses(*handler, self._loop)
        else:
            answering = cygrpc._finish_handler_with_unary_response(*handler, begun.encode, self._loop)
        task = self._loop.create_task(cygrpc._handle_exceptions(call, _watched(answering), self._loop, path))
        task.add_done_callback(partial(self._ended, sender.network, context))
        # Waits for the caller's end without a task, as `_refuse` does, and holds the task until then.
        _go_on(cygrpc._handle_cancellation_from_core(task, call, self._loop))
        return False

    def _ended(self, address: str, context: Any, _: asyncio.Task[None]) -> None:
        if context.code() not in (None, 0, grpc.StatusCode.OK):
            self._start.refused(address, refusals=_REFUSALS_OF_FAILURE)

    def _refuse(self, call: object, refusal: Refusal) -> None:
        """Send a refusal without a task, which would take a tenth of the time; the last operation waits for the end."""
        status = cygrpc.SendStatusFromServerOperation(refusal.trailers, refusal.code.value[0], refusal.message, 0)
        operations = (cygrpc.SendInitialMetadataOperation((), 0), status, cygrpc.ReceiveCloseOnServerOperation(0))
        _go_on(cygrpc.execute_batch(call, operations, self._loop))

    def _make_request_call_future(self, method: bytes | None) -> asyncio.Future[object]:
        """Ask for the next RPC of a method; None: of all unknown ones."""
        # A loop that ends cancels its awaited request, but gRPC's core would still write to the memory of the request.
        request: asyncio.Task[object] = super()._make_request_call_future(method)
        request.add_done_callback(_retrieve)
        return asyncio.shield(request)

    async def _request_call(self) -> NoReturn:
        """Refuse RPCs of unknown methods; the serving loop, which awaits one of them, never gets it."""
        while True:  # Without a local variable for an RPC, as above.
            self._refuse_unknown(await super()._request_call())

    def _refuse_unknown(self, call: object) -> None:
        """Refuse an RPC of an unknown method."""
        context = cygrpc._ServicerContext(call, None, None, self._loop)
        refusing = context.abort(grpc.StatusCode.UNIMPLEMENTED, "the server has no such method")
        refused = cygrpc._schedule_rpc_coro(refusing, call, self._loop, "unknown")
        self._loop.create_task(refused)  # gRPC holds it as long as it writes

    def _serving_task_crash_handler(self, task: asyncio.Task[None]) -> None:
        """Report the end of the serving loop; gRPC would cancel the RPCs of every caller."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._report(error)

    def _report(self, error: BaseException) -> None:
        if not self.ended.done():
            _LOGGER.error("the serving loop ended", exc_info=error)
            self.ended.set_result(None)

    async def _start_shutting_down(self) -> None:
        try:
            await super()._start_shutting_down()
        except Exception:
            if not self.ended.done():
                raise  # otherwise it is that of the serving loop, which has been reported


async def _watched(answering: Coroutine[Any, Any, None]) -> None:
    """Answer an RPC; end a process without memory, whose errors outside the handler gRPC would call UNKNOWN."""
    try:
        await answering
    except (MemoryError, SystemError):
        end_without_memory()
        raise


def _go_on(sending: Coroutine[Any, Any, None], _: asyncio.Future[None] | None = None) -> None:
    """Let operations wait for gRPC, and free their memory once they are done."""
    try:
        waiting = sending.send(None)
    except (StopIteration, cygrpc.ExecuteBatchError):
        return  # They have ended, or the caller is gone.
    waiting.add_done_callback(partial(_go_on, sending))


def _retrieve(request: asyncio.Task[object]) -> None:
    """Take gRPC's error at the end of its requests when it stops; otherwise asyncio logs it."""
    if not request.cancelled():
        request.exception()


class Listener(Server):
    """A server of grpc.aio that asks `begin` what becomes of each RPC, and reports the end of its serving loop."""

    @override
    def __init__(self, begin: Begin, options: Sequence[tuple[str, Any]]) -> None:
        """Make a server without methods and ports; call it inside a running event loop."""
        if grpc.__version__.rpartition(".")[0] != SUPPORTED_GRPC:
            raise UnsupportedGrpcError(f"this server needs grpcio {SUPPORTED_GRPC}, not {grpc.__version__}")
        self._loop = cygrpc.get_working_loop()
        self._server = _Server(self._loop, begin, tuple(options))
        self.ended: asyncio.Future[None] = self._server.ended
        """Done once the serving loop has ended by an error; RPCs in progress go on, new ones may not be answered."""
