"""The interceptor that waits for the caller's messages, but not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

import grpc

from xuanzang.server.engine.errors import EngineError, FieldViolation, InvalidInputError
from xuanzang.server.rpc import errors
from xuanzang.server.rpc.context import Context
from xuanzang.server.rpc.interceptors.base import Interceptor, Rpc
from xuanzang.server.rpc.interceptors.handlers import Handler, function_of, with_function


class ReceptionInterceptor(Interceptor):
    """Ends RPCs whose caller sends nothing for too long and is owed no answer.

    gRPC itself waits for the message of a unary RPC as long as the connection lasts, and never answers an RPC that is
    closed without one. Every RPC is therefore received as a stream here; outside of the interceptors that look at
    messages, so that they see its shape.
    """

    def __init__(self, idle_seconds: float) -> None:
        super().__init__()
        self._idle_seconds = idle_seconds

    def wrap(self, handler: Handler, rpc: Rpc) -> Handler:  # noqa: ARG002 - all RPCs are received alike
        """Receive the messages with a time limit."""
        function = function_of(handler)

        async def received(messages: AsyncIterator[Any], context: Context) -> Any:
            if handler.request_streaming:
                reception = _Reception(messages, context, self._idle_seconds)
                return await function(reception.messages(), cast("Context", reception))
            try:
                message = await self._only(messages)
            except EngineError as error:
                status = errors.status_of(error)
            else:
                return await function(message, context)
            return await errors.end(context, status)

        return with_function(handler, received, receives_stream=True)

    async def _only(self, messages: Any) -> Any:
        try:
            # Closed at once, because gRPC's iterator and its generator hold each other as long as this can go on.
            generator: AsyncGenerator[Any, None] = aiter(messages)
            async with asyncio.timeout(self._idle_seconds):
                try:
                    return await anext(generator)
                finally:
                    await generator.aclose()
        except TimeoutError:
            raise _idle(self._idle_seconds) from None
        except StopAsyncIteration:
            raise InvalidInputError([FieldViolation(field="request", description="must be sent")]) from None
        except grpc.aio.InternalError:
            raise _ended_by_grpc() from None


class _Reception:
    """The context of a stream, which counts the answers that are owed, and its messages."""

    def __init__(self, messages: AsyncIterator[Any], context: Context, idle_seconds: float) -> None:
        self._context = context
        self._messages = messages
        self._idle_seconds = idle_seconds
        self._owed = 0
        self._active_at = asyncio.get_running_loop().time()

    async def messages(self) -> AsyncIterator[Any]:
        while True:
            message = await self._next()
            if message is grpc.aio.EOF:
                return
            self._move(owed=1)
            yield message

    async def write(self, message: Any) -> None:
        await self._context.write(message)
        self._move(owed=-1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def _next(self) -> Any:
        reading = asyncio.ensure_future(anext(self._messages, grpc.aio.EOF))
        try:
            # Not cancelled at each look at the clock: gRPC's iterator would end.
            while not reading.done():
                await asyncio.wait((reading,), timeout=self._remaining_seconds())
                if not reading.done() and not self._owed and self._remaining_seconds() <= 0:
                    raise _idle(self._idle_seconds)
            return reading.result()
        except grpc.aio.InternalError:
            raise _ended_by_grpc() from None
        finally:
            reading.cancel()

    def _remaining_seconds(self) -> float:
        if self._owed:
            return self._idle_seconds
        return self._active_at + self._idle_seconds - asyncio.get_running_loop().time()

    def _move(self, *, owed: int) -> None:
        self._owed += owed
        self._active_at = asyncio.get_running_loop().time()


def _idle(seconds: float) -> errors.IdleRpcError:
    return errors.IdleRpcError(f"the caller sent no message for {seconds:g} seconds")


def _ended_by_grpc() -> asyncio.CancelledError:
    """Return what ends the task of an RPC that has its status: the caller hung up, or sent what is no message."""
    return asyncio.CancelledError("gRPC has ended the call")
