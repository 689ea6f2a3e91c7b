"""How both clients reach the servers: target, channel options, credentials."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence
from importlib.metadata import version

import grpc

from xuanzang.client._types import TLSConfig

MAX_MESSAGE_BYTES = 64 * 1024 * 1024

_MAX_CLIENT_ID = 128

_SERVICE_CONFIG = {
    "loadBalancingConfig": [{"round_robin": {}}],
    "methodConfig": [
        {
            "name": [{"service": "xuanzang.translation.v1.TranslationService"}],
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.1s",
                "maxBackoff": "5s",
                "backoffMultiplier": 2,
                # The first two mean that no work was begun. With RESOURCE_EXHAUSTED the server sends
                # grpc-retry-pushback-ms, which gRPC obeys in place of the backoff above. CANCELLED is what a stopping
                # server's gRPC says to a call that it has not looked at; what the caller cancels is not tried again.
                "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "CANCELLED"],
            },
        }
    ],
}


def target(address: str | Sequence[str]) -> str:
    """Name the servers in gRPC's way.

    Args:
        address: What gRPC takes ("host:50051", "dns:///host:50051", "unix:/path"), or several "ip:port".

    Raises:
        ValueError: No address, or several that are not all of the form IPv4:port or all [IPv6]:port.
    """
    addresses = [address] if isinstance(address, str) else list(address)
    if not addresses or not all(addresses):
        raise ValueError("address is empty: give host:port")
    if len(addresses) == 1:
        return addresses[0]
    versions = {_ip_version(each) for each in addresses}
    if len(versions) > 1:
        raise ValueError("several addresses must be all IPv4 or all IPv6")
    return f"ipv{versions.pop()}:{','.join(addresses)}"


def options(*, max_message_bytes: int, tls: TLSConfig | None) -> list[tuple[str, str | int]]:
    """List the channel's settings: balancing, retries, keepalive, message sizes."""
    settings: list[tuple[str, str | int]] = [
        ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
        ("grpc.primary_user_agent", f"xuanzang-client/{version('xuanzang-client')}"),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.max_receive_message_length", max_message_bytes),
        # A request that does not fit in this buffer is sent once and never retried.
        ("grpc.per_rpc_retry_buffer_size", max_message_bytes),
        # A peer that vanished without a word is noticed while calls wait for it, not at their deadline.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        # A server that restarts is found again within seconds; gRPC's own limit is two minutes.
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 5_000),
    ]
    if tls is not None and tls.server_name is not None:
        settings.append(("grpc.ssl_target_name_override", tls.server_name))
    return settings


def credentials(tls: TLSConfig) -> grpc.ChannelCredentials:
    """Make the channel's TLS credentials."""
    return grpc.ssl_channel_credentials(tls.root_certificates, tls.private_key, tls.certificate_chain)


def metadata(client_id: str | None) -> tuple[tuple[str, str], ...]:
    """Make what is sent along with every call.

    Args:
        client_id: What the caller calls itself, or None.

    Raises:
        ValueError: The name cannot be sent, or is too long.
    """
    if client_id is None:
        return ()
    if not (1 <= len(client_id) <= _MAX_CLIENT_ID and client_id.isascii() and client_id.isprintable()):
        raise ValueError(f"client_id must be 1 to {_MAX_CLIENT_ID} printable ASCII characters, not {client_id!r}")
    return (("x-client-id", client_id),)


def positive_timeout(timeout: float) -> float:
    """Check a timeout.

    Raises:
        ValueError: It is not a positive number of seconds.
    """
    if not 0 < timeout < float("inf"):
        raise ValueError(f"timeout must be a positive number of seconds, not {timeout}")
    return timeout


def _ip_version(address: str) -> int:
    host, _, port = address.rpartition(":")
    try:
        int(port)
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).version
    except ValueError as error:
        raise ValueError(
            f"{address!r} is not ip:port; of several addresses each must be. For servers behind one name "
            "give the name alone: all its addresses are used in turn"
        ) from error
