"""The gate that RPCs of the translation service pass: closed while models load, open, closed for good at the drain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

from xuanzang.server.engine.errors import DrainingError, OverloadedError
from xuanzang.server.rpc.context import Context
from xuanzang.server.rpc.errors import NotReadyError

Request = TypeVar("Request")

# There are no figures to estimate from: the RPCs may be streams that stay open for hours.
_RETRY_AFTER_SECONDS = 1.0


class RpcGate:
    """Opens when the models are warm, closes at the drain, and counts the RPCs that are inside."""

    def __init__(self, *, max_concurrent_rpcs: int) -> None:
        self._max_concurrent_rpcs = max_concurrent_rpcs
        self._running = 0
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
        return self._running

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

    async def enter(self, context: Context) -> None:
        """Admit an RPC, or refuse it; an admitted one leaves by itself once its answer is sent.

        Args:
            context: Context of the RPC.

        Raises:
            NotReadyError: The models are not loaded yet.
            DrainingError: The server is stopping.
            OverloadedError: Too many RPCs are running.
        """
        if self._closed.is_set():
            self._refusals += 1
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
        """Pass the requests of a stream on until the gate closes.

        Args:
            requests: Messages of the caller.

        Yields:
            Each message, in order.

        Raises:
            DrainingError: The server is stopping; messages that arrive later are not read.
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

    def _leave(self, ctx: Context) -> None:  # noqa: ARG002 - gRPC passes it
        self._running -= 1
        if self._running == 0:
            self._idle.set()
