"""Asyncio stream: tasks send the caller's texts, the caller's own task receives the answers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable

import grpc

from xuanzang.client._calls.aio import AsyncCalls, AsyncSession, Stub
from xuanzang.client._calls.aio_errors import cancelled_calls
from xuanzang.client._calls.metadata import CallMetadata
from xuanzang.client._calls.status import WRITE_MET_THE_END, mapped_error
from xuanzang.client._errors import DeadlineExceededError, ServerFaultError, ServerUnavailableError, StatusCode
from xuanzang.client._methods.stream_state import StreamState
from xuanzang.client._values.results import StreamedTranslation
from xuanzang.client._values.usage import OnUsage
from xuanzang.translation.v1 import translation_pb2 as pb

_Call = grpc.aio.StreamStreamCall[pb.StreamTranslateTextRequest, pb.StreamTranslateTextResponse]


class AsyncStream:
    """One stream of texts and answers, opened again on another address when it breaks.

    Args:
        texts: Texts of the caller.
        state: State of the stream.
        calls: Calls of the client.
        timeout: Seconds of each wait for an answer.
        max_in_flight: Maximum number of texts sent whose results have not been yielded.
        on_usage: Receiver of what this stream has used, beside the client's.
    """

    def __init__(
        self,
        texts: Iterable[str] | AsyncIterable[str],
        state: StreamState,
        calls: AsyncCalls,
        *,
        timeout: float,
        max_in_flight: int,
        on_usage: OnUsage | None = None,
    ) -> None:
        self._texts = texts
        self._state = state
        self._timeout = timeout
        self._on_usage = on_usage
        self._room = asyncio.Semaphore(max_in_flight)
        self._calls = calls
        self._metadata = CallMetadata.of(calls.metadata)
        state.request_id = self._metadata.request_id
        self._session: AsyncSession[_Call] = AsyncSession(calls, self._start)
        self._call: _Call | None = None
        self._writer: asyncio.Task[None] | None = None
        self._outbox: deque[pb.StreamTranslateTextRequest] = deque()
        self._outbox_changed = asyncio.Event()
        self._all_admitted = False
        self._limit: asyncio.Timeout | None = None  # of the current read
        self._interruption: grpc.RpcError | None = None  # the last one whose status arrived
        # When the current wait for an answer times out, however often the stream breaks meanwhile; None: no text waits.
        self._wait_ends: float | None = None

    async def run(self) -> AsyncGenerator[StreamedTranslation, None]:
        """Open the stream and yield results until every text has one."""
        feeder = asyncio.create_task(self._feed())
        with self._metadata.naming_errors():
            try:
                ended = False
                while not ended:
                    ended = await self._read()
                    for result in self._state.take():
                        self._wait_ends = None
                        self._room.release()
                        yield result
                self._state.finish()
            finally:
                feeder.cancel()
                await asyncio.wait([feeder])
                await self._abandon()
                self._session.close()

    async def _feed(self) -> None:
        with self._state.feeding():
            async for text in _each(self._texts):
                await self._room.acquire()
                request = self._state.admit(text)
                if request is not None:
                    self._expect_answer()
                    self._outbox.append(request)
                    self._outbox_changed.set()
        self._all_admitted = True
        self._outbox_changed.set()

    async def _read(self) -> bool:
        """Receive one answer, or open the stream again if it broke; return True at the end of the stream."""
        if self._state.waits_for_answer and self._wait_ends is None:
            self._wait_ends = self._now() + self._timeout
        try:
            async with asyncio.timeout_at(self._wait_ends) as self._limit:
                with cancelled_calls():
                    response = await (await self._opened()).read()
        except TimeoutError as error:
            message = f"no answer within {self._timeout:g} s"
            raise DeadlineExceededError(message, code=StatusCode.DEADLINE_EXCEEDED) from error
        except grpc.RpcError as error:
            await self._reopen(error)
            return self._state.is_complete
        finally:
            self._limit = None
        self._wait_ends = None
        self._session.answered()
        if isinstance(response, pb.StreamTranslateTextResponse):
            self._state.settle(response)
            return False
        await self._calls.report_usage(await self._opened(), also=self._on_usage)
        return True

    async def _opened(self) -> _Call:
        if self._call is None:
            self._call = await self._session.open(seconds=self._remaining())
            self._outbox = deque(self._state.unanswered())
            self._writer = asyncio.create_task(self._write_all(self._call))
        return self._call

    async def _reopen(self, error: grpc.RpcError) -> None:
        """Let the next read open the stream again, or raise the error if it is final."""
        await self._abandon()
        try:
            self._state.interrupt(self._session.failed(error, seconds=self._remaining()))
        except ServerFaultError as fault:
            if fault.message != WRITE_MET_THE_END:
                raise
            # gRPC has put its own error in the place of the server's; a try before this one may have got that.
            if self._interruption is not None:
                raise mapped_error(self._interruption) from error
            message = "the server ended the stream while texts were being sent"
            raise ServerUnavailableError(message, code=StatusCode.UNAVAILABLE) from error
        if error.details() != WRITE_MET_THE_END:
            self._interruption = error

    async def _abandon(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait([self._writer])
            self._writer = None

    def _start(self, stub: Stub) -> _Call:
        return stub.StreamTranslateText(metadata=self._metadata.pairs)

    async def _write_all(self, call: _Call) -> None:
        while True:
            self._outbox_changed.clear()
            while self._outbox:
                await self._write(call, self._outbox.popleft())
            if self._all_admitted:
                await self._write(call, None)
                return
            await self._outbox_changed.wait()

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
            self._wait_ends = self._now() + self._timeout
            self._limit.reschedule(self._wait_ends)

    def _remaining(self) -> float:
        return self._timeout if self._wait_ends is None else self._wait_ends - self._now()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


async def _each(texts: Iterable[str] | AsyncIterable[str]) -> AsyncIterator[str]:
    if isinstance(texts, AsyncIterable):
        async for text in texts:
            yield text
    else:
        for text in texts:
            yield text
