"""Progressive translation: the parts of one call; the last holds the whole translation."""

# ruff: noqa: ASYNC109 - this timeout is sent to the server as a deadline, which asyncio.timeout cannot do

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Protocol

import grpc

from xuanzang.client._calls.aio import AsyncCalls, AsyncSession, cancelled_calls
from xuanzang.client._calls.aio import Stub as AsyncStub
from xuanzang.client._calls.blocking import BlockingCalls, Session, Stub
from xuanzang.client._calls.metadata import CallMetadata
from xuanzang.client._calls.status import mapped_error
from xuanzang.client._errors import ServerFaultError, StatusCode
from xuanzang.client._messages.responses import progressive_translation
from xuanzang.client._values.results import ProgressiveTranslation, Translation
from xuanzang.translation.v1 import translation_pb2 as pb

_Request = pb.TranslateTextProgressivelyRequest
_AsyncCall = grpc.aio.UnaryStreamCall[_Request, pb.TranslateTextProgressivelyResponse]


class _Call(Protocol):
    """Subset of the gRPC call object that is used here."""

    def __next__(self) -> pb.TranslateTextProgressivelyResponse: ...

    def trailing_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...

    def cancel(self) -> object: ...


def read_parts(calls: BlockingCalls, request: _Request, *, timeout: float) -> Iterator[ProgressiveTranslation]:
    """Make the call and yield the parts of its answer; closing the generator early cancels it.

    A call that fails before its first part is repeated; a later failure raises TranslationError.
    """
    deadline = calls.shared.clock() + timeout
    metadata = CallMetadata.of(calls.metadata)

    def remaining() -> float:
        return max(0.0, deadline - calls.shared.clock())

    def start(stub: Stub) -> _Call:
        return stub.TranslateTextProgressively(request, timeout=remaining(), metadata=metadata.pairs)

    session: Session[_Call] = Session(calls, start)
    last: ProgressiveTranslation | None = None
    with metadata.naming_errors():
        call = session.open(seconds=remaining())
        try:
            while True:
                try:
                    response = next(call, None)
                except grpc.RpcError as error:
                    if last is not None:
                        raise mapped_error(error) from error
                    session.failed(error, seconds=remaining())
                    call = session.open(seconds=remaining())
                    continue
                if response is None:
                    break
                session.answered()
                last = progressive_translation(response, request)
                yield last
            calls.answered(call)
            _check_end(last)
        finally:
            call.cancel()
            session.close()


async def aio_read_parts(
    calls: AsyncCalls, request: _Request, *, timeout: float
) -> AsyncGenerator[ProgressiveTranslation, None]:
    """Make the call and yield the parts of its answer, as `read_parts` does."""
    deadline = calls.shared.clock() + timeout
    metadata = CallMetadata.of(calls.metadata)

    def remaining() -> float:
        return max(0.0, deadline - calls.shared.clock())

    def start(stub: AsyncStub) -> _AsyncCall:
        return stub.TranslateTextProgressively(request, timeout=remaining(), metadata=metadata.pairs)

    session: AsyncSession[_AsyncCall] = AsyncSession(calls, start)
    last: ProgressiveTranslation | None = None
    with metadata.naming_errors():
        call = await session.open(seconds=remaining())
        try:
            while True:
                try:
                    with cancelled_calls():
                        response = await call.read()
                except grpc.RpcError as error:
                    if last is not None:
                        raise mapped_error(error) from error
                    session.failed(error, seconds=remaining())
                    call = await session.open(seconds=remaining())
                    continue
                if not isinstance(response, pb.TranslateTextProgressivelyResponse):
                    break
                session.answered()
                last = progressive_translation(response, request)
                yield last
            await calls.answered(call)
            _check_end(last)
        finally:
            call.cancel()
            session.close()


def whole(parts: Iterable[ProgressiveTranslation]) -> Translation:
    """Return the whole translation, which the last part holds."""
    *_, last = parts
    return _check_end(last)


def _check_end(last: ProgressiveTranslation | None) -> Translation:
    if last is None or last.translation is None:
        raise ServerFaultError("the server ended the call without a translation", code=StatusCode.INTERNAL)
    return last.translation
