"""Network addresses of callers, and what the access log says of one: never its address, nor a name that it chose."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

from xuanzang.serving.networks import ip_of, network_of

AddressClass = Literal["loopback", "private", "public", "unix", "unknown"]


class CallerFacts(NamedTuple):
    """Kind of a caller."""

    kind: Literal["key", "client_id", "address", "refused"]
    """Identification of the caller; "refused": it needs a valid key and has none."""
    key: str | None
    """Id of its key in the keys file."""
    address: AddressClass
    """Class of its network address."""


class Sender(NamedTuple):
    """Sender of an RPC."""

    peer: str
    """The sender in gRPC's form, such as "ipv4:127.0.0.1:50051"."""
    host: str
    """The same without the port, which differs for every connection."""
    network: str
    """Network by which it is counted; see `network_of`."""


def sender_of(peer: str) -> Sender:
    """Return the sender of an RPC, whose peer gRPC names."""
    host = peer.rpartition(":")[0]
    return Sender(peer, host, network_of(host))


@lru_cache(1024)
def address_class(host: str) -> AddressClass:
    """Classify the network address of a sender's host."""
    if host.startswith("unix"):
        return "unix"
    address = ip_of(host)
    if address is None:
        return "unknown"
    if address.is_loopback:
        return "loopback"
    return "private" if address.is_private else "public"
