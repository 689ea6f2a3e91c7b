"""The two meanings of CancelledError in grpc.aio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from xuanzang.client._errors import CallCancelledError, StatusCode


@contextmanager
def cancelled_calls() -> Iterator[None]:
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
