"""Error mapping for grpc.aio, whose CancelledError has two meanings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from xuanzang.client._errors import CallCancelledError, StatusCode
from xuanzang.client._status import mapped_errors


@contextmanager
def aio_mapped_errors() -> Iterator[None]:
    """Raise gRPC errors as errors of this package, as `mapped_errors` does.

    grpc.aio also raises asyncio.CancelledError when the call was cancelled, for example because the client was closed.
    That becomes CallCancelledError; a cancellation of the current task passes through unchanged.
    """
    try:
        with mapped_errors():
            yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise CallCancelledError("the call was cancelled", code=StatusCode.CANCELLED) from error
