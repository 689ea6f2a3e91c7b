"""Whether the server lets RPCs in, and which of them are still running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, TypeVar

import grpc

from xuanzang.server.engine.errors import DrainingError, OverloadedError
from xuanzang.server.rpc.errors import NotReadyError

Request = TypeVar("Request")

# There are no figures to estimate from: the RPCs may be streams that stay open for hours.
_RETRY_AFTER_SECONDS = 1.0


class Admission:
    """Closed while the models load, then open, then closed for good; counts the RPCs it has let in."""

    def __init__(self, *, max_concurrent_rpcs: int) -> None:
        self._max_concurrent_rpcs = max_concurrent_rpcs
        self._running = 0
        self._held = 0
        self._opened = False
        self._closed = asyncio.Event()
        self._refusing = asyncio.Event()
        self._refusing.set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def running(self) -> int:
        """RPCs let in and not yet answered."""
        return self._running

    def open(self) -> None:
        """Let RPCs in from now on."""
        self._opened = True

    def close(self) -> None:
        """Let no RPC in any more."""
        self._closed.set()

    def hold(self) -> int:
        """Let those who are to be refused wait.

        Returns:
            How many have been refused or wait for it.
        """
        self._refusing.clear()
        return self._held

    def release(self) -> None:
        """Refuse those who wait."""
        self._refusing.set()

    async def enter(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Let an RPC in; it leaves by itself once its answer is sent.

        Args:
            context: Of the RPC.

        Raises:
            NotReadyError: The models are not loaded yet.
            DrainingError: The server is stopping.
            OverloadedError: Too many RPCs are running.
        """
        if self._closed.is_set():
            self._held += 1
            await self._refusing.wait()
            raise DrainingError("the server is stopping; try another one")
        if not self._opened:
            raise NotReadyError("the models are still being loaded; try again soon")
        if self._running >= self._max_concurrent_rpcs:
            raise OverloadedError(
                f"the limit of {self._max_concurrent_rpcs} concurrent RPCs is reached",
                retry_after_seconds=_RETRY_AFTER_SECONDS,
            )
        self._running += 1
        self._idle.clear()
        context.add_done_callback(self._leave)  # type: ignore[arg-type]  # the stub wants a class of its own

    async def idle(self) -> None:
        """Wait until no RPC is running."""
        await self._idle.wait()

    async def until_closed(self, requests: AsyncIterator[Request]) -> AsyncGenerator[Request, None]:
        """Pass the requests of a stream on until the server stops.

        Args:
            requests: What the caller sends.

        Yields:
            Each of them.

        Raises:
            DrainingError: The server is stopping; what the caller sends from now on is not read.
        """
        closed = asyncio.ensure_future(self._closed.wait())
        reading = asyncio.ensure_future(anext(requests))
        try:
            while True:
                await asyncio.wait((reading, closed), return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    raise DrainingError("the server is stopping; texts without an answer were not translated")
                try:
                    request = reading.result()
                except StopAsyncIteration:
                    return
                yield request
                reading = asyncio.ensure_future(anext(requests))
        finally:
            closed.cancel()
            reading.cancel()

    def _leave(self, ctx: grpc.aio.ServicerContext[Any, Any]) -> None:  # noqa: ARG002 - gRPC gives it
        self._running -= 1
        if self._running == 0:
            self._idle.set()
