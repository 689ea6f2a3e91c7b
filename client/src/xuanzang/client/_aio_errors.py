"""Tells the two meanings of CancelledError apart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from xuanzang.client._errors import CallCancelledError, StatusCode
from xuanzang.client._status import mapped_errors


@contextmanager
def aio_mapped_errors() -> Iterator[None]:
    """Turn a gRPC error raised inside into one of ours, as `mapped_errors` does.

    grpc.aio raises asyncio.CancelledError where the call was cancelled, as when the client is closed. That looks like
    a cancellation of the caller's own task, which it is not; only the latter passes.
    """
    try:
        with mapped_errors():
            yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise CallCancelledError("the call was cancelled", code=StatusCode.CANCELLED) from error
