"""Facts read from the context of an RPC: the caller and the deadline."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypeAlias

import grpc

from xuanzang.server.access.callers import Caller
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.scheduling.requests.call_record import CallObserver

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]

CLIENT_ID = "x-client-id"
MAX_CLIENT_ID_CHARACTERS = 128


class IdentifiedContext:
    """The context of an RPC whose caller is known, or the error that refuses the caller."""

    request_id: str | None = None
    """Id of the RPC; None before it is counted."""
    observer: CallObserver | None = None
    """Who asks for the records of its calls."""

    def __init__(self, context: Context, identity: Caller | Exception, metadata: Metadata) -> None:
        self.identity = identity
        """Caller, or why nobody may call."""
        self._context = context
        # What every RPC asks for; `__getattr__` finds the rest.
        self.code = context.code
        self.time_remaining = context.time_remaining
        self.trailing_metadata = context.trailing_metadata
        self.set_trailing_metadata = context.set_trailing_metadata
        self._metadata = metadata
        self._peer: str | None = None

    def invocation_metadata(self) -> Metadata:
        """Return the metadata of the caller, which gRPC would decode once more each time."""
        return self._metadata

    def peer(self) -> str:
        """Return the peer in gRPC's form, which gRPC would make anew each time."""
        if self._peer is None:
            self._peer = self._context.peer()
        return self._peer

    async def read(self) -> Any:
        """Receive a message. Of a caller who will be refused none is received; an empty one stands for it."""
        return await self._context.read() if isinstance(self.identity, Caller) else b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def caller_of(context: Context) -> Caller:
    """Return the caller that the interceptor of identities has found.

    Args:
        context: Context of an RPC.

    Raises:
        UnauthenticatedError: The caller needs a valid key.
        InvalidInputError: The caller's name is too long.
    """
    known: Any = context
    identity: Caller | Exception = known.identity
    if isinstance(identity, Exception):
        raise identity
    return identity


def observer_of(context: Context) -> CallObserver | None:
    """Return who asks for the records of an RPC's calls, or None.

    Args:
        context: Context of an RPC.
    """
    known: Any = context
    observer: CallObserver | None = known.observer
    return observer


def unproven_name(context: Context, metadata: Metadata) -> str:
    """Return the name by which a busy server shares its time with a caller without a key; never logged, never a label.

    Args:
        context: Context of an RPC.
        metadata: Its metadata.

    Returns:
        The name in the metadata `x-client-id`, else the caller's network address without the port.

    Raises:
        InvalidInputError: The name is too long.
    """
    name = str(dict(metadata).get(CLIENT_ID, ""))
    if len(name) > MAX_CLIENT_ID_CHARACTERS:
        description = f"must have at most {MAX_CLIENT_ID_CHARACTERS} characters, has {len(name)}"
        raise InvalidInputError([FieldViolation(field=CLIENT_ID, description=description)])
    return name or context.peer().rpartition(":")[0]


def deadline_of(context: Context) -> float | None:
    """Return the time by which the caller wants its answer.

    Args:
        context: Context of an RPC.

    Returns:
        Seconds on the monotonic clock; None without a deadline.
    """
    remaining: float | None = context.time_remaining()
    # gRPC rounds timeouts up, by at most 1 %, to send them: the caller gives up before the server's clock says so.
    return None if remaining is None else time.monotonic() + 0.99 * remaining
