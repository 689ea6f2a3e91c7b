"""Progressive translation: the parts of one call, the last of which holds the whole translation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Protocol

import grpc

from xuanzang.client._aio_errors import aio_mapped_errors
from xuanzang.client._errors import ServerFaultError, StatusCode
from xuanzang.client._responses import progressive_translation
from xuanzang.client._status import mapped_errors
from xuanzang.client._types import ProgressiveTranslation
from xuanzang.translation.v1 import translation_pb2 as pb

_Response = pb.TranslateTextProgressivelyResponse
_AsyncCall = grpc.aio.UnaryStreamCall[pb.TranslateTextProgressivelyRequest, _Response]


class _Call(Protocol):
    """Subset of the gRPC call object that is used here."""

    def __next__(self) -> pb.TranslateTextProgressivelyResponse: ...

    def cancel(self) -> object: ...


def read_parts(rpc: Callable[[], _Call]) -> Iterator[ProgressiveTranslation]:
    """Start the call and yield the parts of its answer; closing the generator early cancels it.

    Raises:
        TranslationError: The call failed.
    """
    call = rpc()
    last: ProgressiveTranslation | None = None
    try:
        while True:
            with mapped_errors():
                response = next(call, None)
            if response is None:
                break
            last = progressive_translation(response)
            yield last
        _check_end(last)
    finally:
        call.cancel()


async def aio_read_parts(rpc: Callable[[], _AsyncCall]) -> AsyncGenerator[ProgressiveTranslation, None]:
    """Start the call and yield the parts of its answer; closing the generator early cancels it.

    Raises:
        TranslationError: The call failed.
    """
    call = rpc()
    last: ProgressiveTranslation | None = None
    try:
        while True:
            with aio_mapped_errors():
                response = await call.read()
            if not isinstance(response, _Response):
                break
            last = progressive_translation(response)
            yield last
        _check_end(last)
    finally:
        call.cancel()


def _check_end(last: ProgressiveTranslation | None) -> None:
    if last is None or last.translation is None:
        raise ServerFaultError("the server ended the call without a translation", code=StatusCode.INTERNAL)
