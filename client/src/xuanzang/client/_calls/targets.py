"""Addresses of servers: what callers write, as gRPC targets with a port."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

DEFAULT_PORT = 50051
"""Port of an address that names none; gRPC's own would be 443."""

_MAX_PORT = 65535
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# gRPC's other names for an address, such as "dns:///host:1" and "ipv4:10.0.0.1:1,10.0.0.2:1".
_RESOLVED = re.compile(r"(dns:(?://[^/]*/)?|ipv4:|ipv6:)(.+)")
# Schemes without a port, or with another meaning of it.
_OTHERS = ("unix:", "unix-abstract:", "vsock:", "xds:", "passthrough:", "google-c2p:")
_ENCRYPTED = ("https", "grpcs", "wss")


def targets(address: str | Sequence[str]) -> list[str]:
    """Return the gRPC targets of the servers, one per channel.

    Args:
        address: One server as "host:port", "host", or another gRPC target ("dns:///host:50051", "unix:/path"); or a
            sequence of them.

    Raises:
        ValueError: There is no address, or one is not of that form; the message says what to write.
    """
    addresses = [address] if isinstance(address, str) else list(address)
    if not addresses or not all(isinstance(each, str) and each.strip() for each in addresses):
        raise ValueError("address is empty: give host:port")
    return list(dict.fromkeys(_target(each.strip()) for each in addresses))


def endpoints(target: str) -> list[tuple[str, int]] | None:
    """Return the hosts, without brackets, and ports of a target; None if it is not reached by host and port."""
    prefix, rest = _parted(target)
    if prefix is None:
        return None
    split = [each.rpartition(":") for each in rest.split(",")]
    return [(host.strip("[]"), int(port)) for host, _, port in split]


def _target(address: str) -> str:
    prefix, rest = _parted(address)
    if prefix is None:
        return address
    # Only those of numbers may name several.
    parts = rest.split(",") if prefix.startswith("ipv") else [rest]
    return prefix + ",".join(_with_port(part, address) for part in parts)


def _parted(address: str) -> tuple[str | None, str]:
    """Split an address into gRPC's prefix, None if it has no hosts and ports, and the rest.

    Raises:
        ValueError: It is a URL.
    """
    if address.startswith(_OTHERS):
        return None, address
    if match := _RESOLVED.fullmatch(address):
        return match[1], match[2]
    if url := _URL.match(address):
        raise ValueError(_url_hint(address, url[1].lower()))
    return "", address


def _with_port(address: str, whole: str) -> str:
    """Return host:port, with the default port if the address names none."""
    if _is_ip6(address):
        return f"[{address}]:{DEFAULT_PORT}"
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, str(DEFAULT_PORT)
    is_port = port.isascii() and port.isdecimal() and 1 <= int(port) <= _MAX_PORT
    is_bracketed = host.startswith("[") and host.endswith("]") and _is_ip6(host[1:-1])
    if not is_port or not (is_bracketed or re.fullmatch(r"[^\s:/\[\]]+", host)):
        raise ValueError(f'address {whole!r} is not host:port, such as "localhost:{DEFAULT_PORT}" or "[::1]:1234"')
    return f"{host}:{port}"


def _is_ip6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False


def _url_hint(address: str, scheme: str) -> str:
    rest = urlsplit(address).netloc.rpartition("@")[2]
    tls = ", and TLS by tls=TLSConfig() (--tls)" if scheme in _ENCRYPTED else ""
    http = f"; it is a server's gRPC port, by default {DEFAULT_PORT}, not a gateway's" if scheme[:4] == "http" else ""
    return f"address {address!r} is a URL: give {rest or 'host:port'!r}{tls}{http}"
