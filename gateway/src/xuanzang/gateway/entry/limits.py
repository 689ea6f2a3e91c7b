"""Shared limits: how much may be taken at a time, by all callers, by a network address and by one caller."""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass
from http import HTTPStatus

from xuanzang.gateway.errors import Fault, RefusedError

_RESERVED = 8
"""One in so many places is only for network addresses that have taken none."""
_RETRY_SECONDS = 1.0
_IPV6_BITS = 64
"""Of an IPv6 address: one host has the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How much of anything one side may take, as fractions of the whole."""

    address: float
    """Of a network address."""
    caller: float
    """Of one caller."""


class SharedLimit:
    """What is taken of one kind: requests in progress, uploads, or bytes. Belongs to one event loop."""

    def __init__(self, what: str, *, total: int, shares: Shares) -> None:
        """Leave all of them free.

        Args:
            what: Their name in refusals, in the plural.
            total: Number of places.
            shares: Shares of them.
        """
        self.taken = 0
        self._what = what
        self._total = total
        self._open = total - total // _RESERVED
        self._of_address = max(1, int(total * shares.address))
        self._of_caller = max(1, int(total * shares.caller))
        self._counts: Counter[tuple[str, str]] = Counter()

    def take(self, address: str, caller: str, number: int) -> None:
        """Take places.

        Args:
            address: Network address, as `network_of` returns it.
            caller: Name of the caller.
            number: Number of places.

        Raises:
            RefusedError: So many are not free; the message names the limit.
        """
        self._check(self._counts["address", address], self._counts["caller", caller], number)
        self.release(address, caller, -number)

    def release(self, address: str, caller: str, number: int) -> None:
        """Give places back.

        Args:
            address: Network address of those that were taken.
            caller: Name of the caller.
            number: Number of places.
        """
        self.taken -= number
        for key in (("address", address), ("caller", caller)):
            self._counts[key] -= number
            if not self._counts[key]:
                del self._counts[key]

    def _check(self, of_address: int, of_caller: int, number: int) -> None:
        # From the widest to the narrowest, so that the first limit named is the one to wait for.
        checks = (
            (self.taken, self._total, self._what, HTTPStatus.SERVICE_UNAVAILABLE),
            (of_address, self._of_address, f"{self._what} of one network address", HTTPStatus.TOO_MANY_REQUESTS),
            (of_caller, self._of_caller, f"{self._what} of one caller", HTTPStatus.TOO_MANY_REQUESTS),
            (
                self.taken if of_address else 0,
                self._open,
                f"{self._what} outside the reserve for other addresses",
                HTTPStatus.SERVICE_UNAVAILABLE,
            ),
        )
        for taken, limit, what, status in checks:
            if taken + number > limit:
                message = f"the gateway's limit of {limit} {what} is reached"
                raise RefusedError(Fault(status=status, message=message, retry_after=_RETRY_SECONDS))


def network_of(host: str) -> str:
    """Return the network address by which a host is counted: of IPv6 its first 64 bits.

    Args:
        host: IP address; anything else is returned as it is.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address.packed, _IPV6_BITS), strict=False))
