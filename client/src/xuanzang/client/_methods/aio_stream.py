"""Asyncio stream: one task feeds texts, one receives answers, and the caller takes results from a queue."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable

import grpc

from xuanzang.client._calls.aio import AsyncCalls, AsyncSession, Stub, cancelled_calls
from xuanzang.client._calls.metadata import CallMetadata
from xuanzang.client._calls.status import WRITE_MET_THE_END, mapped_error
from xuanzang.client._errors import ServerFaultError, ServerUnavailableError, StatusCode
from xuanzang.client._methods.stream_state import TEXTS_IN_FLIGHT, End, StreamState
from xuanzang.client._values.results import OnUsage, StreamedTranslation
from xuanzang.translation.v1 import translation_pb2 as pb

_Call = grpc.aio.StreamStreamCall[pb.StreamTranslateTextRequest, pb.StreamTranslateTextResponse]


class AsyncStream:
    """One stream of texts and answers, opened again on another address when it breaks.

    Args:
        max_in_flight: Maximum number of texts read whose results have not been yielded.
        on_usage: Another receiver of the stream's usage, after the client's.
    """

    def __init__(
        self,
        texts: Iterable[str] | AsyncIterable[str],
        state: StreamState,
        calls: AsyncCalls,
        *,
        max_in_flight: int = TEXTS_IN_FLIGHT,
        on_usage: OnUsage | None = None,
    ) -> None:
        self._texts = texts
        self._state = state
        self._on_usage = on_usage
        self._room = asyncio.Semaphore(max_in_flight)
        self._calls = calls
        self._metadata = CallMetadata.of(calls.metadata)
        state.request_id = self._metadata.request_id
        self._session: AsyncSession[_Call] = AsyncSession(calls, self._start)
        # A result holds its place in `_room` until it is yielded, so the queue is bounded.
        self._events: asyncio.Queue[StreamedTranslation | End[_Call] | Exception] = asyncio.Queue()
        self._outbox: deque[pb.StreamTranslateTextRequest] = deque()
        self._changed = asyncio.Event()  # the outbox, or `_all_admitted`
        self._all_admitted = False
        self._interruption: grpc.RpcError | None = None  # the last one whose status arrived

    async def run(self) -> AsyncGenerator[StreamedTranslation, None]:
        """Open the stream and yield results until every text has one."""
        tasks = [asyncio.create_task(self._feed()), asyncio.create_task(self._receive())]
        self._calls.shared.addresses.listen(self._changed.set)
        with self._metadata.naming_errors():
            try:
                while not isinstance(event := await self._next(), End):
                    for result in self._state.in_turn(event):
                        self._room.release()
                        yield result
                if event.call is not None:
                    await self._calls.answered(event.call, also=self._on_usage)
                self._state.finish()
            finally:
                self._calls.shared.addresses.unlisten(self._changed.set)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)

    async def _next(self) -> StreamedTranslation | End[_Call]:
        """Wait for the next event.

        Raises:
            DeadlineExceededError: A text has waited too long for its answer.
            Exception: The stream failed.
        """
        with self._state.waiting():
            while True:
                try:
                    async with asyncio.timeout(self._state.seconds_left):
                        event = await self._events.get()
                    break
                except TimeoutError:
                    self._state.require_time()
        if not isinstance(event, Exception):
            return event
        try:
            raise event
        finally:
            del event  # this frame would keep its own error, and with it the call

    async def _feed(self) -> None:
        with self._state.feeding():
            async for text in _each(self._texts):
                await self._room.acquire()
                admitted = self._state.admit(text)
                if isinstance(admitted, StreamedTranslation):
                    self._events.put_nowait(admitted)
                    continue
                self._outbox.append(admitted)
                self._changed.set()
        self._all_admitted = True
        self._changed.set()

    async def _receive(self) -> None:
        try:
            self._events.put_nowait(End(await self._exchange()))
        except Exception as error:  # noqa: BLE001 - raised by the caller's task
            self._events.put_nowait(error)
        finally:
            self._session.close()

    async def _exchange(self) -> _Call | None:
        """Receive answers until the stream is complete; return the call that the server has ended."""
        while await self._has_to_be_open():
            call = await self._session.open(seconds=self._state.seconds_left)
            self._outbox = deque(self._state.unanswered())
            writer = asyncio.create_task(self._write_all(call))
            try:
                with cancelled_calls():
                    while isinstance(response := await call.read(), pb.StreamTranslateTextResponse):
                        self._session.answered()
                        self._events.put_nowait(self._state.settle(response))
            except grpc.RpcError as error:
                self._interrupt(error)
            else:
                return call
            finally:
                call.cancel()
                writer.cancel()
                await asyncio.wait([writer])
        return None

    async def _has_to_be_open(self) -> bool:
        """Wait until the stream has to be open; return False if it has not, because it is complete."""
        while not (self._all_admitted or self._calls.closed or self._state.waits_for_answer):
            self._changed.clear()
            await self._changed.wait()
        return not self._state.is_complete

    def _interrupt(self, error: grpc.RpcError) -> None:
        """Let the stream be opened again, or raise the error if it is final."""
        seconds = self._state.seconds_left if self._state.waits_for_answer else None
        try:
            for result in self._state.interrupt(self._session.failed(error, seconds=seconds)):
                self._events.put_nowait(result)
        except ServerFaultError as fault:
            if fault.message != WRITE_MET_THE_END:
                raise
            # gRPC has put its own error in the place of the server's; a try before this one may have got that.
            if self._interruption is not None:
                raise mapped_error(self._interruption) from error
            message = "the server ended the stream while texts were being sent"
            raise ServerUnavailableError(message, code=StatusCode.UNAVAILABLE) from error
        if not isinstance(error, grpc.aio.AioRpcError) or error.details() != WRITE_MET_THE_END:
            self._interruption = error

    def _start(self, stub: Stub) -> _Call:
        return stub.StreamTranslateText(metadata=self._metadata.pairs)

    async def _write_all(self, call: _Call) -> None:
        while True:
            self._changed.clear()
            while self._outbox:
                await self._write(call, self._outbox.popleft())
            if self._all_admitted:
                await self._write(call, None)
                return
            await self._changed.wait()

    async def _write(self, call: _Call, request: pb.StreamTranslateTextRequest | None) -> None:
        """Send a message, or half-close the stream; if the call has ended, the receiving side raises its error."""
        try:
            if request is None:
                await call.done_writing()
            else:
                await call.write(request)
        except (grpc.RpcError, asyncio.InvalidStateError):
            return


async def _each(texts: Iterable[str] | AsyncIterable[str]) -> AsyncIterator[str]:
    if isinstance(texts, AsyncIterable):
        async for text in texts:
            yield text
    else:
        for text in texts:
            yield text
