"""Admission of RPCs: the places of callers, the gate between loading and drain, and the screen that refuses unread."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import time
from collections import Counter
from collections.abc import Hashable
from functools import partial
from typing import Any, NamedTuple

from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import DrainingError, OverloadedError
from xuanzang.server.engine.types import CallerId
from xuanzang.server.rpc.context import RpcContext
from xuanzang.server.rpc.errors import NotReadyError, Refusal, refusal_of
from xuanzang.server.rpc.limits import RpcLimits

# There are no figures to estimate from: the RPCs may be streams that stay open for hours.
_RETRY_AFTER_SECONDS = 1.0
# Beyond this share of the RPCs that a caller or a connection may have, an RPC must be answered in a part of its time:
# least when the next one would be refused or have to wait in the client.
_BUSY_SHARE = 0.5
_LEAST_PART = 1 / 64
# Time that counts for those with more, or without a deadline, when places are scarce.
_PATIENCE_SECONDS = 3600.0
# A refusal is given again for so long; a server answers few requests in this time.
_REFUSING_SECONDS = 0.01
# After the refusal of an RPC that was read, others like it are refused unread until this share of the work that comes
# before them is done. Then there is room for several; if it were for one, several would be read each time to find it.
_HELD_SHARE = 0.02
# An RPC is similar to a refused one if its time left is at most this multiple.
_SAME_TIME = 1.1
# For so long after a refusal the RPCs like it are read only as the caller's requests are answered: so many for each,
# because some turn out too large, and so many at a time.
_SCARCE_SECONDS = 1.0
_READ_PER_ANSWER = 2
_MAX_PERMITS = 32
_MAX_CALLERS = 1024
# While a share has as many refused names, a full queue is known of the share: each new name would be read otherwise.
_MANY_NAMES = 16
_MAX_REFUSALS = 64


class Place(NamedTuple):
    """Places that an RPC occupies while it is in progress, and gives back."""

    address: Hashable
    """Network address of the caller, as `network_of` returns it."""
    caller: CallerId
    connection: str = ""
    """Peer in gRPC's form, with its port; empty if it does not matter."""
    is_stream: bool = False
    """True if the caller sends a stream of messages."""

    @classmethod
    def of(cls, rpc: RpcContext, *, is_stream: bool = False) -> Place:
        """Return the place of an RPC."""
        return cls(rpc.sender.network, rpc.caller.identity, rpc.sender.peer, is_stream)


class Occupancy:
    """The places that are taken: of all callers together, by network address, by caller, and by connection."""

    def __init__(self, limits: RpcLimits) -> None:
        self.rpcs = 0
        self._limits = limits
        self._unreserved = limits.max_concurrent_rpcs - min(limits.reserved_rpcs, limits.max_concurrent_rpcs // 4)
        self._addresses: dict[Hashable, int] = {}
        self._callers: dict[Hashable, int] = {}
        self._connections: dict[Hashable, int] = {}
        # Those of them that are streams.
        self._address_streams: dict[Hashable, int] = {}
        self._caller_streams: dict[Hashable, int] = {}
        # In the order of a place's fields, which are the keys.
        self._counts = self._addresses, self._callers, self._connections
        self._stream_counts = self._address_streams, self._caller_streams

    def take(self, place: Place) -> None:
        """Take a place; OverloadedError names the limit that is reached."""
        limits = self._limits
        address, caller = self._addresses.get(place.address, 0), self._callers.get(place.caller, 0)
        # Checked from the widest to the narrowest, so that the first limit named is the one to wait for.
        checks = [
            (self.rpcs, limits.max_concurrent_rpcs, "concurrent RPCs"),
            (self.rpcs if address else 0, self._unreserved, "concurrent RPCs outside the reserve"),
            (address, limits.max_address_rpcs, "RPCs of one network address"),
            (caller, limits.max_caller_rpcs, "RPCs of one caller"),
        ]
        if place.is_stream:
            address, caller = self._address_streams.get(place.address, 0), self._caller_streams.get(place.caller, 0)
            checks += [
                (address, limits.max_address_streams, "streams of one network address"),
                (caller, limits.max_caller_streams, "streams of one caller"),
            ]
        for taken, limit, what in checks:
            if taken >= limit:
                message = f"the limit of {limit} {what} is reached"
                raise OverloadedError(message, retry_after_seconds=_RETRY_AFTER_SECONDS, reason="places")
        self.rpcs += 1
        for kinds in (self._counts, self._stream_counts)[: 1 + place.is_stream]:
            for counts, key in zip(kinds, place, strict=False):
                counts[key] = counts.get(key, 0) + 1

    def give_back(self, place: Place) -> None:
        """Give a place back."""
        self.rpcs -= 1
        for kinds in (self._counts, self._stream_counts)[: 1 + place.is_stream]:
            for counts, key in zip(kinds, place, strict=False):
                counts[key] -= 1
                if not counts[key]:
                    del counts[key]

    def share(self, place: Place) -> float:
        """Return how near a unary RPC is to a limit, from 0 to 1: at 1 it is refused, or waits in the client.

        An address with less than an equal part of all places does not make them scarce, however many others take.
        """
        limits, address = self._limits, self._addresses.get(place.address, 0)
        equal_parts = (address + 1) * (len(self._addresses) + (not address))
        return max(
            self._connections.get(place.connection, 0) / limits.max_connection_rpcs,
            self._callers.get(place.caller, 0) / limits.max_caller_rpcs,
            address / limits.max_address_rpcs,
            min(self.rpcs, equal_parts) / self._unreserved,
        )


class RpcGate:
    """Opens when the models are warm, closes at the drain, and counts the RPCs that are inside."""

    def __init__(self, limits: RpcLimits) -> None:
        self._occupancy = Occupancy(limits)
        self._refusals = 0
        self.is_open = False
        """True if RPCs are admitted."""
        self.closed = asyncio.Event()
        """Set at the drain, for good."""
        self._refusing = asyncio.Event()
        self._refusing.set()
        self._emptied = asyncio.Event()

    @property
    def running(self) -> int:
        """RPCs that entered and are not yet answered."""
        return self._occupancy.rpcs

    def open(self) -> None:
        """Admit RPCs from now on, unless it is closed."""
        self.is_open = not self.closed.is_set()

    def close(self) -> None:
        """Admit no further RPC, for good."""
        self.is_open = False
        self.closed.set()

    def hold(self) -> int:
        """Delay the refusals of a closed gate until they are released."""
        self._refusing.clear()
        return self._refusals

    def release(self) -> None:
        """Send the delayed refusals; later ones are sent at once."""
        self._refusing.set()

    def share(self, rpc: RpcContext) -> float:
        """Return how near a unary RPC that has just arrived is to a limit, from 0 to 1."""
        rpc.place = Place.of(rpc)
        return self._occupancy.share(rpc.place)

    async def enter(self, rpc: RpcContext, *, is_stream: bool) -> None:
        """Admit an RPC, or refuse it; call it in the task of the RPC, whose end releases an admitted one.

        Refusals are errors: NotReadyError, DrainingError, or OverloadedError if too many RPCs are running.
        """
        if not self.is_open:
            if not self.closed.is_set():
                raise NotReadyError("the models are still being loaded; try again soon")
            self._refusals += 1
            await self._refusing.wait()
            raise DrainingError("the server is stopping; try another one")
        # A unary RPC that was screened has one already.
        place = rpc.place or Place.of(rpc, is_stream=is_stream)
        self._occupancy.take(place)
        # A callback of the context would do the same, but gRPC's list of them and the context hold each other.
        task: Any = asyncio.current_task()
        task.add_done_callback(partial(self._leave, place))

    async def idle(self) -> None:
        """Wait until no RPC is running."""
        while self._occupancy.rpcs:
            self._emptied.clear()
            await self._emptied.wait()

    def _leave(self, place: Place, task: asyncio.Task[Any]) -> None:  # noqa: ARG002 - tasks pass themselves
        self._occupancy.give_back(place)
        if not self._occupancy.rpcs:
            self._emptied.set()


@dataclasses.dataclass(slots=True)
class _Scarcity:
    """Facts about a caller, or a share of callers, that has lately been refused."""

    refusal: Refusal
    """That of the RPC with the most time."""
    seconds: float
    """Time that this RPC had until its deadline."""
    until: float
    """End of the time during which RPCs with no more time are read only as requests are answered."""
    held_until: float = -math.inf
    """Time until which none of them is read."""
    permits: int = 0
    """RPCs that may be read."""
    over_at: float = -math.inf
    """Time from which it says nothing."""
    kept: dict[tuple[str, float], tuple[Refusal, float]] = dataclasses.field(default_factory=dict)
    """Refusals that are given again, each with the time until which it is.

    They are kept by connection and by time in tenths of a second: RPCs with less time have to wait longer.
    """

    def keep(self, rpc: RpcContext, seconds: float, refusal: Refusal, until: float) -> Refusal:
        """Keep a refusal for RPCs of the same connection with as much time, and return it."""
        if len(self.kept) >= _MAX_REFUSALS:
            self.kept.clear()
        self.over_at = max(self.over_at, until, self.until, self.held_until)
        self.kept[rpc.sender.peer, round(seconds, 1)] = refusal, until
        return refusal


class Screen:
    """Refuses RPCs of one message before they are read, if others like them would be refused afterwards.

    Under overload there are more refusals than answers, and a refusal after reading takes several times as long. Nor
    may refusals wait in the client, whose RPCs in progress on a connection are limited by the server: the last
    of these are left to requests that, measured by the time they have, are answered soon.

    The work of an RPC is unknown before it is read: it may be little, and a part of the answer may be of use. So it
    is refused unread only if nothing could be begun in its time, or in a part of it when places at the gate are scarce;
    or, while there is work for all workers, if one of the same caller with as much time has lately been read and
    refused.
    """

    def __init__(self, gate: RpcGate, engine: Engine) -> None:
        self._gate = gate
        self._engine = engine
        # By caller, or by share where many names of it are refused; those refused longest ago are forgotten first.
        self._scarcities: dict[str | CallerId, _Scarcity] = {}
        # Refused names of each share.
        self._names: Counter[str] = Counter()

    def refusal(self, rpc: RpcContext) -> Refusal | None:
        """Return the refusal of an RPC that has just arrived, of a caller who may call; None to read it."""
        if not self._gate.is_open:
            return None
        now, caller = time.monotonic(), rpc.caller.identity
        seconds = math.inf if rpc.deadline is None else rpc.deadline - now
        scarcities = self._scarcities_of(caller)
        for scarcity in scarcities:
            kept, until = scarcity.kept.get((rpc.sender.peer, round(seconds, 1)), (None, 0.0))
            if kept is not None and now < until:
                return kept
        try:
            self._require_time(rpc, seconds)
        except OverloadedError as error:
            refusal = refusal_of(error)
            scarcity = self._scarcity(caller, refusal, seconds, now)
            return scarcity.keep(rpc, seconds, refusal, now + _REFUSING_SECONDS)
        refusals = (self._unread(rpc, scarcity, seconds, now) for scarcity in scarcities)
        return next(filter(None, refusals), None)

    def _scarcities_of(self, caller: CallerId) -> list[_Scarcity]:
        """Return the records of a caller's share and of its own, as far as there are any."""
        if not self._scarcities:
            return []
        return [known for owner in (caller.share, caller) if (known := self._scarcities.get(owner))]

    def _unread(self, rpc: RpcContext, scarcity: _Scarcity, seconds: float, now: float) -> Refusal | None:
        """Return the refusal of an RPC that has as much time as a refused one; None to read it."""
        if seconds > _SAME_TIME * scarcity.seconds:
            return None
        if now < scarcity.held_until:
            return scarcity.keep(rpc, seconds, scarcity.refusal, scarcity.held_until)
        is_read = now >= scarcity.until or not self._engine.seconds_until_begun(rpc.caller.identity)
        if not is_read:
            scarcity.permits -= 1
            is_read = scarcity.permits >= 0
        return None if is_read else scarcity.refusal

    def learn_refusal(self, rpc: RpcContext, error: OverloadedError) -> None:
        """Record the refusal of an RPC that was read: the next ones need not be read under load."""
        caller, now = rpc.caller.identity, time.monotonic()
        until_begun = self._engine.seconds_until_begun(caller)
        if until_begun is None:
            # It was refused for its own work.
            return
        seconds = math.inf if rpc.deadline is None else rpc.deadline - now
        until = now + max(_REFUSING_SECONDS, min(error.retry_after_seconds, _HELD_SHARE * until_begun))
        refusal = refusal_of(error)
        # The names of a share have one part of the queue together.
        is_of_share = error.reason == "queue" and self._names[caller.share] >= _MANY_NAMES
        owner = caller.share if is_of_share else caller
        scarcity = self._scarcity(owner, refusal, seconds, now)
        scarcity.keep(rpc, seconds, refusal, until)
        if _SAME_TIME * seconds >= scarcity.seconds:
            scarcity.held_until = until

    def learn_answer(self, rpc: RpcContext) -> None:
        """Take note of an answer: there is room for another request."""
        for scarcity in self._scarcities_of(rpc.caller.identity):
            scarcity.permits = min(max(0, scarcity.permits) + _READ_PER_ANSWER, _MAX_PERMITS)

    def _scarcity(self, owner: str | CallerId, refusal: Refusal, seconds: float, now: float) -> _Scarcity:
        """Return the record of a caller or a share, whose RPC with the given time has just been refused."""
        known = self._scarcities.pop(owner, None)
        if known is None:
            self._forget_oldest(now)
            if isinstance(owner, CallerId):
                self._names[owner.share] += 1
            known = _Scarcity(refusal, seconds, now + _SCARCE_SECONDS)
        elif now >= known.until or _SAME_TIME * seconds >= known.seconds:
            # Those of RPCs with more time say more: they need not end because of others with less.
            known.refusal, known.seconds, known.until = refusal, seconds, now + _SCARCE_SECONDS
        self._scarcities[owner] = known
        return known

    def _forget_oldest(self, now: float) -> None:
        """Forget records that are over, and the oldest if there are too many."""
        while self._scarcities:
            owner, oldest = next(iter(self._scarcities.items()))
            if len(self._scarcities) < _MAX_CALLERS and oldest.over_at > now:
                return
            del self._scarcities[owner]
            if isinstance(owner, CallerId):
                self._names[owner.share] -= 1
                if not self._names[owner.share]:
                    del self._names[owner.share]

    def _require_time(self, rpc: RpcContext, seconds: float) -> None:
        share, caller = self._gate.share(rpc), rpc.caller.identity
        if share <= _BUSY_SHARE:
            self._engine.require_time(caller, seconds)
            return
        part = _LEAST_PART ** ((share - _BUSY_SHARE) / (1 - _BUSY_SHARE))
        seconds = min(seconds, _PATIENCE_SECONDS)
        try:
            self._engine.require_time(caller, part * seconds)
        except OverloadedError as error:
            message = (
                f"{share:.0%} of the RPCs that may be in progress are, and the answer would take more than {part:.0%} "
                "of the time until the deadline"
            )
            # Places become free as waiting work is done: then as many are free as in quiet times, all the time.
            until_done = error.retry_after_seconds + part * seconds
            until_room = max(until_done - seconds, (1 - _BUSY_SHARE / share) * until_done)
            wait = min(error.retry_after_seconds, until_room)
            raise OverloadedError(message, retry_after_seconds=wait, reason="places") from None
