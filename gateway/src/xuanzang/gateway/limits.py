"""Shared limits: how much may be taken at a time, by all callers, by a network address and by one caller."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple

from xuanzang.gateway.errors import Fault, RefusedError
from xuanzang.gateway.settings import Settings

_RESERVED = 8
"""Each eighth place is reserved for network addresses without one."""
_UPLOADS = 8
_EXPLANATIONS = 8
"""The server makes fewer at a time, and one of them can be an answer of many megabytes."""
_GRPC_CALLS = 256
"""Each has a thread."""


class Holder(NamedTuple):
    """A caller, who holds places."""

    address: str
    """Network address, as `network_of` returns it."""
    caller: str
    """Name of the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares of anything that one side may take, as fractions of the whole."""

    address: float
    """Of a network address."""
    caller: float
    """Of one caller."""


class SharedLimit:
    """Places taken of one kind: requests in progress, uploads, or bytes. Belongs to one event loop."""

    def __init__(self, what: str, *, total: int, shares: Shares, retry_seconds: float = 1) -> None:
        """Leave all of them free.

        Args:
            what: Their name in refusals, in the plural.
            shares: Shares of them, each a place at least.
            retry_seconds: Time until a refused caller should ask again.
        """
        self.taken = 0
        self.total = total
        self._what = what
        self._retry_seconds = retry_seconds
        self._open = total - total // _RESERVED
        self._of_address = max(1, math.ceil(total * shares.address))
        self._of_caller = max(1, math.ceil(total * shares.caller))
        self._counts: Counter[tuple[str, str]] = Counter()
        self._waiting: dict[asyncio.Future[None], Holder] = {}

    def require_room(self, holder: Holder, number: int = 1) -> None:
        """Refuse places, without taking them, if they are not free.

        Raises:
            RefusedError: So many are not free; the message names the limit.
        """
        if full := self._full(holder, number):
            limit, what, status = full
            message = f"the gateway's limit of {limit} {what} is reached"
            reason = f"limit: {what}"
            raise RefusedError(Fault(status=status, message=message, reason=reason, retry_after=self._retry_seconds))

    def take(self, holder: Holder, number: int = 1) -> None:
        """Take places.

        Raises:
            RefusedError: So many are not free; the message names the limit.
        """
        self.require_room(holder, number)
        self._count(holder, number)

    def release(self, holder: Holder, number: int = 1) -> None:
        """Return places, and hand them to waiting callers."""
        self._count(holder, -number)
        for turn, waiting in list(self._waiting.items()):
            # A cancelled caller leaves when its task runs.
            if not turn.done() and not self._full(waiting, 1):
                del self._waiting[turn]
                self._count(waiting, 1)
                turn.set_result(None)

    @contextmanager
    def held(self, holder: Holder, number: int = 1) -> Iterator[None]:
        """Take places and hold them.

        Raises:
            RefusedError: So many are not free; the message names the limit.
        """
        self.take(holder, number)
        try:
            yield
        finally:
            self.release(holder, number)

    @asynccontextmanager
    async def turn(self, holder: Holder) -> AsyncIterator[None]:
        """Wait for a place and hold it; callers get places in their order, within their shares."""
        if self._full(holder, 1):
            await self._wait(holder)
        else:
            self._count(holder, 1)
        try:
            yield
        finally:
            self.release(holder)

    async def _wait(self, holder: Holder) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = holder
        try:
            await turn
        except asyncio.CancelledError:
            if self._waiting.pop(turn, None) is None:
                self.release(holder)
            raise

    def _count(self, holder: Holder, number: int) -> None:
        self.taken += number
        for key in (("address", holder.address), ("caller", holder.caller)):
            self._counts[key] += number
            if not self._counts[key]:
                del self._counts[key]

    def _full(self, holder: Holder, number: int) -> tuple[int, str, HTTPStatus] | None:
        """Return the limit that more places would exceed, with its name and status."""
        of_address, of_caller = self._counts["address", holder.address], self._counts["caller", holder.caller]
        # From the widest to the narrowest, so that the first limit named is the one to wait for.
        checks = (
            (self.taken, self.total, self._what, HTTPStatus.SERVICE_UNAVAILABLE),
            (of_address, self._of_address, f"{self._what} of one network address", HTTPStatus.TOO_MANY_REQUESTS),
            (of_caller, self._of_caller, f"{self._what} of one caller", HTTPStatus.TOO_MANY_REQUESTS),
            (
                self.taken if of_address else 0,
                self._open,
                f"{self._what} outside the reserve for other addresses",
                HTTPStatus.SERVICE_UNAVAILABLE,
            ),
        )
        return next(((limit, what, status) for taken, limit, what, status in checks if taken + number > limit), None)


class SharedLimits:
    """The limits that callers share, one for each kind of resource: a full one never blocks another kind."""

    def __init__(self, settings: Settings) -> None:
        """Leave all of it free."""
        shares = Shares(address=settings.address_share, caller=settings.caller_share)

        def limit(what: str, total: int, *, retry_seconds: float = 1) -> SharedLimit:
            return SharedLimit(what, total=total, shares=shares, retry_seconds=retry_seconds)

        self.requests = limit("requests in progress", settings.max_concurrent_requests)
        self.grpc_calls = limit("gRPC calls in progress", min(_GRPC_CALLS, settings.max_concurrent_requests))
        self.uploads = limit("uploads", _UPLOADS)
        self.explanations = limit("explanations", _EXPLANATIONS)
        self.body_bytes = limit("bytes of bodies in memory", settings.body_memory_bytes)
        self.documents = limit("documents in memory", settings.max_documents, retry_seconds=10)
        self.translations = limit("documents in translation", settings.max_running_documents, retry_seconds=5)
        self.document_processes = limit("processes of documents", settings.max_document_processes)
