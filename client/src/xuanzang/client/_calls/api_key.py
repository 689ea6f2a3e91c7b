"""The API key: where it comes from, and where it may be sent."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable

from xuanzang.client._calls.targets import endpoints

VARIABLE = "XUANZANG_API_KEY"

_MAX_CHARACTERS = 4096


def checked_key(api_key: str | None, targets: Iterable[str], *, has_tls: bool, allow_insecure_key: bool) -> str | None:
    """Return the key to send.

    Args:
        api_key: The key; None: that of the environment, if there is one; empty: none.
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
    """Return whether a gRPC target cannot be anywhere but on this machine.

    Args:
        target: Target such as "localhost:50051", "dns:///127.0.0.1:1", "[::1]:1" or "unix:/path", with its port.
    """
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    # A caller's own name server may map "localhost" anywhere.
    has_name_server = target.startswith("dns://") and not target.startswith("dns:///")
    hosts = endpoints(target) or []
    return bool(hosts) and all(
        _is_loopback(host) and not (has_name_server and host.lower() == "localhost") for host, _ in hosts
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
