"""Waits of the two clients: their only difference. The core is written once, with await.

Waits of the blocking client never suspend: the first step of a coroutine of the core runs it to its end.
"""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
)
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import grpc

from xuanzang.client._errors import CallCancelledError, StatusCode

Item = TypeVar("Item")
Result = TypeVar("Result")
Pairs = Iterable[tuple[str, str | bytes]] | None

# Python handles a signal that arrives just before a wait begins, such as Ctrl-C, when the wait is over.
_LONGEST_WAIT = 1.0
# gRPC ends a cancelled call at once.
_END_SECONDS = 2.0


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine of the core."""
    try:
        work.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    work.close()
    raise RuntimeError("a blocking wait has suspended")


def iterated(items: AsyncGenerator[Item, None]) -> Generator[Item, None, None]:
    """Yield the items of a generator of the core."""
    # An event loop of this thread would close the generator when it ends, and so cut the items off.
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(firstiter=None, finalizer=None)
    try:
        following = anext(items)
    finally:
        sys.set_asyncgen_hooks(*hooks)
    try:
        while True:
            try:
                item = run(following)
            except StopAsyncIteration:
                return
            yield item
            following = anext(items)
    finally:
        run(items.aclose())


class Ended(NamedTuple):
    """Try that has ended."""

    number: int
    response: Any = None
    call: Any = None
    error: grpc.RpcError | None = None


class _Tries:
    """Tries of one unary call, some at the same time."""

    def __init__(self, waits: BlockingWaits | AsyncWaits) -> None:
        self._waits = waits
        self._calls: dict[int, Any] = {}
        self._ended: Any = waits.queue()

    def begin(self, number: int, method: Any, request: Any, **settings: Any) -> None:
        """Begin a try."""
        call = self._calls[number] = self._waits.begin(method, request, **settings)
        put = self._ended.put
        call.add_done_callback(lambda _: put(number))

    async def ended(self, seconds: float | None) -> Ended | None:
        """Return the next try that ends, or None if another step is due before."""
        number = await self._ended.get(seconds)
        if number is None:
            return None
        call = self._calls.pop(number)
        response, error = await self._waits.outcome(call)
        return Ended(number, response, call, error)

    def cancel(self) -> None:
        """Cancel the tries under way."""
        for each in self._calls.values():
            each.cancel()


class _InTurn:
    """Tries of a call one after another: waiting for each directly takes a third of the processor time."""

    def __init__(self) -> None:
        self._begun: tuple[int, Callable[[], tuple[Any, Any]]] | None = None

    def begin(self, number: int, method: Any, request: Any, **settings: Any) -> None:
        self._begun = number, partial(method.with_call, request, **settings)

    async def ended(self, seconds: float | None) -> Ended | None:
        if self._begun is None:
            time.sleep(seconds or 0.0)  # noqa: ASYNC251 - on purpose
            return None
        (number, answer), self._begun = self._begun, None
        try:
            response, call = answer()
        except grpc.RpcError as error:
            return Ended(number, error=error)
        return Ended(number, response, call)

    def cancel(self) -> None:
        """Do nothing: no try outlives its wait."""


class _BlockingQueue(Generic[Item]):
    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self.put = self._items.put

    async def get(self, seconds: float | None) -> Item | None:
        try:
            return self._items.get(timeout=_LONGEST_WAIT if seconds is None else min(max(0.0, seconds), _LONGEST_WAIT))
        except queue.Empty:
            return None


class _BlockingChanges:
    def __init__(self) -> None:
        self._condition = threading.Condition()

    def notify(self) -> None:
        with self._condition:
            self._condition.notify_all()

    async def until(self, is_true: Callable[[], object], seconds: float | None = None) -> bool:
        if is_true():
            return True
        with self._condition:
            return bool(self._condition.wait_for(is_true, seconds))


class BlockingWaits:
    """Waits of a blocking client; threads may share it."""

    library: Any = grpc
    closed_error: Any = ValueError
    queue = _BlockingQueue
    changes = _BlockingChanges
    requests = staticmethod(iterated)

    def tries(self, *, alone: bool) -> _Tries | _InTurn:
        """Return the tries of a call; only one at a time has an address if it is alone."""
        return _InTurn() if alone else _Tries(self)

    def begin(self, method: Any, request: Any, **settings: Any) -> Any:
        """Begin a unary call."""
        return method.future(request, **settings)

    async def outcome(self, call: Any) -> tuple[Any, grpc.RpcError | None]:
        """Return the response of an ended call, or its error: a failed call is its own."""
        return (call.result(), None) if call.code() is grpc.StatusCode.OK else (None, call)

    async def each(self, texts: Iterable[str]) -> AsyncIterator[str]:
        """Yield texts."""
        for text in texts:
            yield text

    async def read(self, call: Any) -> Any:
        """Return the next response; None after the last."""
        return next(call, None)

    async def trailers(self, call: Any) -> Pairs:
        """Return the metadata that ends a call."""
        pairs: Pairs = call.trailing_metadata()
        return pairs

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)  # noqa: ASYNC251 - on purpose

    async def apart(self, work: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
        """Do work that takes time and calls no server; for asyncio, another thread does it."""
        return work(*arguments, **named)

    def spawn(self, work: Coroutine[Any, Any, None], *, is_callers: bool = False) -> Callable[[], Awaitable[None]]:
        """Run a coroutine in a new thread; return the function that waits for its end, unless it runs the caller's."""
        thread = threading.Thread(target=run, args=(work,), name="xuanzang-stream", daemon=True)
        thread.start()

        async def stop() -> None:
            # While Python ends, no other thread runs; the garbage collector runs in any thread, also in this one.
            if not (is_callers or sys.is_finalizing() or thread is threading.current_thread()):
                thread.join(_END_SECONDS)

        return stop

    async def close(self, channels: Iterable[grpc.Channel]) -> None:
        """Close connections."""
        for channel in channels:
            channel.close()


@contextmanager
def _cancelled_calls() -> Iterator[None]:
    """Raise CallCancelledError where grpc.aio raises CancelledError for a cancelled call, as when the client is closed.

    A cancellation of the current task passes through unchanged.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise CallCancelledError("the call was cancelled", code=StatusCode.CANCELLED) from error


class _Queue(Generic[Item]):
    def __init__(self) -> None:
        self._items: asyncio.Queue[Item] = asyncio.Queue()
        self.put = self._items.put_nowait

    async def get(self, seconds: float | None) -> Item | None:
        try:
            async with asyncio.timeout(seconds):
                return await self._items.get()
        except TimeoutError:
            return None


class _Changes:
    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.notify = self._event.set

    async def until(self, is_true: Callable[[], object], seconds: float | None = None) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while not is_true():
                    self._event.clear()
                    await self._event.wait()
        except TimeoutError:
            return bool(is_true())
        return True


class AsyncWaits:
    """Waits of an asyncio client; tasks of one event loop may share it."""

    library: Any = grpc.aio
    closed_error: Any = grpc.aio.UsageError
    queue = _Queue
    changes = _Changes

    def tries(self, *, alone: bool) -> _Tries:
        """Return the tries of a call."""
        del alone
        return _Tries(self)

    def requests(self, items: AsyncGenerator[Item, None]) -> AsyncGenerator[Item, None]:
        """Return requests as gRPC reads them."""
        return items

    def begin(self, method: Any, request: Any, **settings: Any) -> Any:
        """Begin a unary call."""
        return method(request, **settings)

    async def outcome(self, call: Any) -> tuple[Any, grpc.RpcError | None]:
        """Return the response of an ended call, or its error."""
        try:
            with _cancelled_calls():
                return await call, None
        except grpc.aio.AioRpcError as error:
            return None, error

    async def each(self, texts: Iterable[str] | AsyncIterable[str]) -> AsyncIterator[str]:
        """Yield texts."""
        if isinstance(texts, AsyncIterable):
            async for text in texts:
                yield text
        else:
            for text in texts:
                yield text

    async def read(self, call: Any) -> Any:
        """Return the next response; None after the last."""
        with _cancelled_calls():
            response = await call.read()
        return None if response is grpc.aio.EOF else response

    async def trailers(self, call: Any) -> Pairs:
        """Return the metadata that ends a call."""
        pairs: Pairs = await call.trailing_metadata()
        return pairs

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def apart(self, work: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
        """Do work that takes time and calls no server, in another thread."""
        return await asyncio.to_thread(work, *arguments, **named)

    def spawn(self, work: Coroutine[Any, Any, None], *, is_callers: bool = False) -> Callable[[], Awaitable[None]]:
        """Run a coroutine in a new task; return the function that cancels it and waits for its end."""
        del is_callers
        task = asyncio.create_task(work)

        async def stop() -> None:
            task.cancel()
            await asyncio.wait([task])

        return stop

    async def close(self, channels: Iterable[grpc.aio.Channel]) -> None:
        """Close connections."""
        await asyncio.gather(*(channel.close() for channel in channels), return_exceptions=True)


Waits: TypeAlias = BlockingWaits | AsyncWaits
