"""The gate that RPCs of the translation service pass: closed while models load, open, closed for good at the drain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from typing import Any, TypeVar, cast

import grpc

from xuanzang.server.engine.errors import DrainingError
from xuanzang.server.rpc.context import Context, caller_of
from xuanzang.server.rpc.entry.occupancy import Occupancy, Place, address_of
from xuanzang.server.rpc.errors import NotReadyError
from xuanzang.server.rpc.limits import RpcLimits

Request = TypeVar("Request")


class RpcGate:
    """Opens when the models are warm, closes at the drain, and counts the RPCs that are inside."""

    def __init__(self, limits: RpcLimits) -> None:
        self._occupancy = Occupancy(limits)
        self._refusals = 0
        self._opened = False
        self._closed = asyncio.Event()
        self._refusing = asyncio.Event()
        self._refusing.set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def running(self) -> int:
        """RPCs that entered and are not yet answered."""
        return self._occupancy.rpcs

    @property
    def is_open(self) -> bool:
        """Whether RPCs are admitted."""
        return self._opened and not self._closed.is_set()

    def open(self) -> None:
        """Admit RPCs from now on."""
        self._opened = True

    def close(self) -> None:
        """Admit no further RPC, for good."""
        self._closed.set()

    def hold(self) -> int:
        """Delay the refusals of a closed gate until they are released.

        Returns:
            RPCs that arrived since the gate closed, refused or delayed.
        """
        self._refusing.clear()
        return self._refusals

    def release(self) -> None:
        """Send the delayed refusals; later ones are sent at once."""
        self._refusing.set()

    def share(self, context: Context) -> float:
        """Return how near a unary RPC that has just arrived is to a limit, from 0 to 1.

        Args:
            context: Context of the RPC.

        Raises:
            InvalidInputError: The caller's name is too long.
        """
        return self._occupancy.share(_place(context, is_stream=False))

    async def enter(self, context: Context, *, is_stream: bool) -> None:
        """Admit an RPC, or refuse it; call it in the task of the RPC, at whose end an admitted one leaves by itself.

        Args:
            context: Context of the RPC.
            is_stream: Whether the caller sends a stream of messages.

        Raises:
            NotReadyError: The models are not loaded yet.
            DrainingError: The server is stopping.
            OverloadedError: Too many RPCs are running, of all callers or of this one.
        """
        if self._closed.is_set():
            self._refusals += 1
            await self._refusing.wait()
            raise DrainingError("the server is stopping; try another one")
        if not self._opened:
            raise NotReadyError("the models are still being loaded; try again soon")
        place = _place(context, is_stream=is_stream)
        self._occupancy.take(place)
        self._idle.clear()
        # A callback of the context would do the same, but gRPC's list of them and the context hold each other.
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        task.add_done_callback(partial(self._leave, place))

    async def idle(self) -> None:
        """Wait until no RPC is running."""
        await self._idle.wait()

    async def until_closed(self, requests: AsyncIterator[Request]) -> AsyncGenerator[Request, None]:
        """Pass the requests of a stream on until the gate closes.

        Args:
            requests: Messages of the caller.

        Yields:
            Each message, in order.

        Raises:
            DrainingError: The server is stopping; messages that arrive later are not read.
        """
        closed = asyncio.ensure_future(self._closed.wait())
        # An error at the end would hold the frame that reads, and the frame the error.
        reading = asyncio.ensure_future(anext(requests, grpc.aio.EOF))
        try:
            while True:
                await asyncio.wait((reading, closed), return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    raise DrainingError("the server is stopping; texts without an answer were not translated")
                request = reading.result()
                if request is grpc.aio.EOF:
                    return
                yield cast("Request", request)
                reading = asyncio.ensure_future(anext(requests, grpc.aio.EOF))
        finally:
            closed.cancel()
            reading.cancel()

    def _leave(self, place: Place, task: asyncio.Task[Any]) -> None:  # noqa: ARG002 - tasks pass themselves
        self._occupancy.give_back(place)
        if not self._occupancy.rpcs:
            self._idle.set()


def _place(context: Context, *, is_stream: bool) -> Place:
    caller, peer = caller_of(context), context.peer()
    return Place(
        address=address_of(peer),
        caller=caller.name,
        is_stream=is_stream,
        is_authenticated=caller.is_authenticated,
        connection=peer,
    )
