"""Network addresses of callers, and what the access log says of one: never its address, nor a name that it chose."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import Literal, NamedTuple

from xuanzang.command import fair_start

AddressClass = Literal["loopback", "private", "public", "unix", "unknown"]

# gRPC percent-encodes the brackets of "ipv6:[2001:db8::1]:50051".
_HOST = re.compile(r"ipv[46]:(?:%5B|\[)?(?P<address>[0-9a-fA-F:.]+?)(?:%.*|\])?")


class CallerFacts(NamedTuple):
    """Kind of a caller."""

    kind: Literal["key", "client_id", "address", "refused"]
    """Identification of the caller; "refused": it needs a valid key and has none."""
    key: str | None
    """Id of its key in the keys file."""
    address: AddressClass
    """Class of its network address."""


def host_of(peer: str) -> str:
    """Return a peer, in gRPC's form such as "ipv4:127.0.0.1:50051", without its port."""
    return peer.rpartition(":")[0]


@lru_cache(1024)
def address_class(host: str) -> AddressClass:
    """Classify the network address in what `host_of` returns."""
    if host.startswith("unix"):
        return "unix"
    address = ip_of(host)
    if address is None:
        return "unknown"
    if address.is_loopback:
        return "loopback"
    return "private" if address.is_private else "public"


@lru_cache(1024)
def ip_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the network address in what `host_of` returns; None if it has none, as a socket of this machine."""
    match = _HOST.fullmatch(host)
    try:
        return ipaddress.ip_address(match["address"]) if match else None
    except ValueError:
        return None


@lru_cache(1024)
def network_of(host: str) -> str:
    """Return the network address in what `host_of` returns: of IPv6 the first 64 bits, as one host has the rest."""
    ip = ip_of(host)
    return fair_start.network_of(ip) if isinstance(ip, ipaddress.IPv6Address) else host
