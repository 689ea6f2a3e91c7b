"""Asyncio stream: a task sends the caller's texts, the caller's own task receives the answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable

import grpc

from xuanzang.client._aio_errors import aio_mapped_errors
from xuanzang.client._errors import DeadlineExceededError, ServerFaultError, ServerUnavailableError, StatusCode
from xuanzang.client._stream_state import StreamState
from xuanzang.client._types import StreamedTranslation
from xuanzang.translation.v1 import translation_pb2 as pb

_Call = grpc.aio.StreamStreamCall[pb.StreamTranslateTextRequest, pb.StreamTranslateTextResponse]


# Message that grpc.aio substitutes for the real status when a write meets the end of the call.
_WRITE_MET_THE_END = "Internal error from Core"


class AsyncStream:
    """One stream of texts and answers."""

    def __init__(
        self, texts: Iterable[str] | AsyncIterable[str], state: StreamState, *, timeout: float, max_in_flight: int
    ) -> None:
        self._texts = texts
        self._state = state
        self._timeout = timeout
        self._room = asyncio.Semaphore(max_in_flight)
        self._limit: asyncio.Timeout | None = None  # of the current read

    async def run(self, rpc: Callable[[], _Call]) -> AsyncGenerator[StreamedTranslation, None]:
        """Open the stream and yield results until every text has one."""
        call = rpc()
        feeder = asyncio.create_task(self._feed(call))
        try:
            ended = False
            while not ended:
                ended = await self._read(call)
                for result in self._state.take():
                    self._room.release()
                    yield result
            self._state.finish()
        finally:
            call.cancel()
            feeder.cancel()
            await asyncio.wait([feeder])

    async def _feed(self, call: _Call) -> None:
        with self._state.feeding():
            async for text in _each(self._texts):
                await self._room.acquire()
                request = self._state.admit(text)
                if request is not None:
                    self._expect_answer()
                    await self._write(call, request)
        await self._write(call, None)

    async def _read(self, call: _Call) -> bool:
        """Receive one answer; return True at the end of the stream."""
        seconds = self._timeout if self._state.waits_for_answer else None
        try:
            async with asyncio.timeout(seconds) as self._limit:
                with aio_mapped_errors():
                    response = await call.read()
        except TimeoutError as error:
            message = f"no answer within {self._timeout:g} s"
            raise DeadlineExceededError(message, code=StatusCode.DEADLINE_EXCEEDED) from error
        except ServerFaultError as error:
            if error.message != _WRITE_MET_THE_END:
                raise
            message = "the server ended the stream while texts were being sent"
            raise ServerUnavailableError(message, code=StatusCode.UNAVAILABLE) from error
        finally:
            self._limit = None
        if isinstance(response, pb.StreamTranslateTextResponse):
            self._state.settle(response)
            return False
        return True

    async def _write(self, call: _Call, request: pb.StreamTranslateTextRequest | None) -> None:
        """Send a message, or half-close the stream; if the call has ended, the receiving side raises its error."""
        try:
            if request is None:
                await call.done_writing()
            else:
                await call.write(request)
        except (grpc.RpcError, asyncio.InvalidStateError):
            return

    def _expect_answer(self) -> None:
        # A read that began with no text unanswered has no time limit yet.
        if self._limit is not None and self._limit.when() is None:
            self._limit.reschedule(asyncio.get_running_loop().time() + self._timeout)


async def _each(texts: Iterable[str] | AsyncIterable[str]) -> AsyncIterator[str]:
    if isinstance(texts, AsyncIterable):
        async for text in texts:
            yield text
    else:
        for text in texts:
            yield text
