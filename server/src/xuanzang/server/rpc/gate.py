"""The gate that RPCs of the translation service pass: open between loading and drain, with a limited number of places.

Places are limited for all callers together, for a network address and for one caller.
"""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
from collections import Counter
from collections.abc import Hashable
from functools import partial
from typing import Any, cast

from xuanzang.server.engine.errors import DrainingError, OverloadedError
from xuanzang.server.observation.callers import host_of, ip_of
from xuanzang.server.rpc.context import Place, RpcContext
from xuanzang.server.rpc.errors import NotReadyError
from xuanzang.server.rpc.limits import RpcLimits

# There are no figures to estimate from: the RPCs may be streams that stay open for hours.
_RETRY_AFTER_SECONDS = 1.0


@dataclasses.dataclass(slots=True)
class _Count:
    rpcs: int = 0
    streams: int = 0


_NONE = _Count()


class Occupancy:
    """The places that are taken, by network address and by caller."""

    def __init__(self, limits: RpcLimits) -> None:
        self.rpcs = 0
        self._limits = limits
        self._unreserved = limits.max_concurrent_rpcs - min(limits.reserved_rpcs, limits.max_concurrent_rpcs // 4)
        # A name that is not proved is counted by address too, so that nobody can use up another's places.
        self._counts: dict[Hashable, _Count] = {}
        self._connections: Counter[str] = Counter()

    def take(self, place: Place) -> None:
        """Take a place.

        Raises:
            OverloadedError: A limit is reached; the message names it.
        """
        keys = _keys(place)
        self._check(place, *self._taken(keys))
        self.rpcs += 1
        self._connections[place.connection] += 1
        for key in keys:
            count = self._counts.get(key)
            if count is None:
                count = self._counts[key] = _Count()
            count.rpcs += 1
            count.streams += place.is_stream

    def give_back(self, place: Place) -> None:
        """Give a place back."""
        self.rpcs -= 1
        self._connections[place.connection] -= 1
        if not self._connections[place.connection]:
            del self._connections[place.connection]
        for key in _keys(place):
            count = self._counts[key]
            count.rpcs -= 1
            count.streams -= place.is_stream
            if not count.rpcs:
                del self._counts[key]

    def share(self, place: Place) -> float:
        """Return how near a unary RPC is to a limit, from 0 to 1: at 1 it is refused, or waits in the client."""
        limits, (address, caller) = self._limits, self._taken(_keys(place))
        return max(
            self._connections[place.connection] / limits.max_connection_rpcs,
            caller.rpcs / limits.max_caller_rpcs,
            address.rpcs / limits.max_address_rpcs,
            self.rpcs / self._unreserved,
        )

    def _taken(self, keys: tuple[Hashable, Hashable]) -> tuple[_Count, _Count]:
        """Return what the address and the caller of a place have taken."""
        address, caller = keys
        return self._counts.get(address, _NONE), self._counts.get(caller, _NONE)

    def _check(self, place: Place, address: _Count, caller: _Count) -> None:
        limits = self._limits
        # Checked from the widest to the narrowest, so that the first limit named is the one to wait for.
        checks = [
            (self.rpcs, limits.max_concurrent_rpcs, "concurrent RPCs"),
            (self.rpcs if address.rpcs else 0, self._unreserved, "concurrent RPCs outside the reserve"),
            (address.rpcs, limits.max_address_rpcs, "RPCs of one network address"),
            (caller.rpcs, limits.max_caller_rpcs, "RPCs of one caller"),
        ]
        if place.is_stream:
            checks += [
                (address.streams, limits.max_address_streams, "streams of one network address"),
                (caller.streams, limits.max_caller_streams, "streams of one caller"),
            ]
        for taken, limit, what in checks:
            if taken >= limit:
                message = f"the limit of {limit} {what} is reached"
                raise OverloadedError(message, retry_after_seconds=_RETRY_AFTER_SECONDS, reason="places")


class RpcGate:
    """Opens when the models are warm, closes at the drain, and counts the RPCs that are inside."""

    def __init__(self, limits: RpcLimits) -> None:
        self._occupancy = Occupancy(limits)
        self._refusals = 0
        self._opened = False
        self.closed = asyncio.Event()
        """Set at the drain, for good."""
        self._refusing = asyncio.Event()
        self._refusing.set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def running(self) -> int:
        """RPCs that entered and are not yet answered."""
        return self._occupancy.rpcs

    @property
    def is_open(self) -> bool:
        """Whether RPCs are admitted."""
        return self._opened and not self.closed.is_set()

    def open(self) -> None:
        """Admit RPCs from now on."""
        self._opened = True

    def close(self) -> None:
        """Admit no further RPC, for good."""
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
        rpc.place = _place(rpc, is_stream=False)
        return self._occupancy.share(rpc.place)

    async def enter(self, rpc: RpcContext, *, is_stream: bool) -> None:
        """Admit an RPC, or refuse it; call it in the task of the RPC, at whose end an admitted one leaves by itself.

        Raises:
            NotReadyError: The models are not loaded yet.
            DrainingError: The server is stopping.
            OverloadedError: Too many RPCs are running, of all callers or of this one.
        """
        if self.closed.is_set():
            self._refusals += 1
            await self._refusing.wait()
            raise DrainingError("the server is stopping; try another one")
        if not self._opened:
            raise NotReadyError("the models are still being loaded; try again soon")
        # A unary RPC that was screened has one already.
        place = rpc.place or _place(rpc, is_stream=is_stream)
        self._occupancy.take(place)
        self._idle.clear()
        # A callback of the context would do the same, but gRPC's list of them and the context hold each other.
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        task.add_done_callback(partial(self._leave, place))

    async def idle(self) -> None:
        """Wait until no RPC is running."""
        await self._idle.wait()

    def _leave(self, place: Place, task: asyncio.Task[Any]) -> None:  # noqa: ARG002 - tasks pass themselves
        self._occupancy.give_back(place)
        if not self._occupancy.rpcs:
            self._idle.set()


def _place(rpc: RpcContext, *, is_stream: bool) -> Place:
    return Place(
        address=address_of(rpc.peer),
        caller=rpc.caller.name,
        is_stream=is_stream,
        is_authenticated=rpc.caller.is_authenticated,
        connection=rpc.peer,
    )


def address_of(peer: str) -> str:
    """Return the network address of a peer.

    Args:
        peer: Peer in gRPC's form, such as "ipv4:127.0.0.1:50051".

    Returns:
        The peer without its port; of an IPv6 address the first 64 bits, because one host has the rest.
    """
    host = host_of(peer)
    ip = ip_of(host)
    return str(ipaddress.ip_network(f"{ip}/64", strict=False)) if ip and ip.version == 6 else host


def _keys(place: Place) -> tuple[Hashable, Hashable]:
    return place.address, ("" if place.is_authenticated else place.address, place.caller)
