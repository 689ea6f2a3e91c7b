"""The API key: where it comes from, and where it may be sent."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable

VARIABLE = "XUANZANG_API_KEY"

_MAX_CHARACTERS = 4096
# gRPC's other names for an address, such as "dns:///host:1" and "ipv4:10.0.0.1:1".
_SCHEME = re.compile(r"^(dns:(//[^/]*/)?|ipv4:|ipv6:)")


def checked_key(api_key: str | None, targets: Iterable[str], *, has_tls: bool, allow_insecure_key: bool) -> str | None:
    """Return the key to send.

    Args:
        api_key: The key; None: that of the environment, if there is one; empty: none.
        targets: gRPC targets that will get the key.
        has_tls: Whether connections are encrypted.
        allow_insecure_key: Whether the key may cross a network in plain text.

    Raises:
        ValueError: The key cannot be a header, or would cross a network in plain text. The message does not hold it.
    """
    key = os.environ.get(VARIABLE, "") if api_key is None else api_key
    if not key:
        return None
    if len(key) > _MAX_CHARACTERS or not (key.isascii() and key.isprintable()) or " " in key:
        raise ValueError(f"api_key must be at most {_MAX_CHARACTERS} printable ASCII characters without spaces")
    if not (has_tls or allow_insecure_key):
        exposed = [target for target in targets if not is_local(target)]
        if exposed:
            raise ValueError(
                f"an API key is not sent to {exposed[0]} in plain text: use TLS, or allow_insecure_key "
                "(--allow-insecure-key) if the network is trusted"
            )
    return key


def is_local(target: str) -> bool:
    """Whether a gRPC target cannot be anywhere but on this machine.

    Args:
        target: Target such as "localhost:50051", "dns:///127.0.0.1:1", "[::1]:1" or "unix:/path".
    """
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    # Several addresses of one target are separated by commas.
    return all(_is_loopback(each) for each in _SCHEME.sub("", target).split(","))


def _is_loopback(address: str) -> bool:
    host = address if address.count(":") > 1 and "]" not in address else address.rpartition(":")[0] or address
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
