"""What the access log says of a caller: never a name that the caller chose, never its network address."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import Literal, NamedTuple

AddressClass = Literal["loopback", "private", "public", "unix", "unknown"]

# gRPC percent-encodes the brackets of "ipv6:[2001:db8::1]:50051".
_PEER = re.compile(r"ipv[46]:(?:%5B|\[)?(?P<address>[0-9a-fA-F:.]+?)(?:%.*|\])?:[0-9]+")


class CallerFacts(NamedTuple):
    """Kind of a caller."""

    kind: Literal["key", "client_id", "address", "refused"]
    """What the caller is known by; "refused": it needs a valid key and has none."""
    key: str | None
    """Id of its key in the keys file."""
    address: AddressClass
    """Class of its network address."""


def address_class(peer: str) -> AddressClass:
    """Classify the network address of a peer.

    Args:
        peer: Peer in gRPC's form, such as "ipv4:127.0.0.1:50051".
    """
    # Every connection has another port.
    return _class_of(peer.rpartition(":")[0])


@lru_cache(1024)
def _class_of(host: str) -> AddressClass:
    if host.startswith("unix"):
        return "unix"
    match = _PEER.fullmatch(f"{host}:0")
    try:
        address = ipaddress.ip_address(match["address"] if match else "")
    except ValueError:
        return "unknown"
    if address.is_loopback:
        return "loopback"
    return "private" if address.is_private else "public"
