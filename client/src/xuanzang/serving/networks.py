"""Network addresses of callers, in the forms of gRPC and of HTTP servers."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

# gRPC percent-encodes the brackets of "ipv6:[2001:db8::1]".
_HOST = re.compile(r"(?:ipv[46]:)?(?:%5B|\[)?(?P<address>[0-9a-fA-F:.]+?)(?:%.*|\])?")
# Of an IPv6 address: one host has the rest.
_IPV6_BITS = 64


@lru_cache(1024)
def ip_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address of a host, such as "::1", "fe80::1%eth0" or gRPC's "ipv6:%5B::1%5D"; None without one."""
    match = _HOST.fullmatch(host)
    try:
        return ipaddress.ip_address(match["address"]) if match else None
    except ValueError:
        return None


@lru_cache(1024)
def network_of(host: str) -> str:
    """Return the network that counts a caller: the first 64 bits of an IPv6 address, else the host itself.

    Args:
        host: Host as `ip_of` takes it, without a port.
    """
    ip = ip_of(host)
    if not isinstance(ip, ipaddress.IPv6Address):
        return host
    return str(ip.ipv4_mapped or ipaddress.ip_network((ip.packed, _IPV6_BITS), strict=False))
