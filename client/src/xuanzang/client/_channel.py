"""Settings of the gRPC channel: target, options, credentials, metadata."""

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
                # The first two mean that no work was started. With RESOURCE_EXHAUSTED the server sends
                # grpc-retry-pushback-ms, which gRPC obeys in place of the backoff above. A stopping server's gRPC gives
                # CANCELLED to calls that it has not dispatched; calls cancelled on this side are not retried.
                "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "CANCELLED"],
            },
        }
    ],
}


def target(address: str | Sequence[str]) -> str:
    """Return the gRPC target that stands for the servers.

    Args:
        address: One gRPC target ("host:50051", "dns:///host:50051", "unix:/path"), or a sequence of "ip:port".

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
    """Return the channel options: load balancing, retries, keepalive, message sizes."""
    settings: list[tuple[str, str | int]] = [
        ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
        ("grpc.primary_user_agent", f"xuanzang-client/{version('xuanzang-client')}"),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.max_receive_message_length", max_message_bytes),
        # A request that does not fit in this buffer is sent once and never retried.
        ("grpc.per_rpc_retry_buffer_size", max_message_bytes),
        # A dead connection is noticed while calls wait on it, not at their deadline.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        # A restarted server is found again within seconds; gRPC's own maximum is two minutes.
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 5_000),
    ]
    if tls is not None and tls.server_name is not None:
        settings.append(("grpc.ssl_target_name_override", tls.server_name))
    return settings


def credentials(tls: TLSConfig) -> grpc.ChannelCredentials:
    """Return the TLS credentials of the channel."""
    return grpc.ssl_channel_credentials(tls.root_certificates, tls.private_key, tls.certificate_chain)


def metadata(client_id: str | None) -> tuple[tuple[str, str], ...]:
    """Return the metadata that every call carries.

    Args:
        client_id: Name of the caller, or None.

    Raises:
        ValueError: The name is empty, too long or not printable ASCII.
    """
    if client_id is None:
        return ()
    if not (1 <= len(client_id) <= _MAX_CLIENT_ID and client_id.isascii() and client_id.isprintable()):
        raise ValueError(f"client_id must be 1 to {_MAX_CLIENT_ID} printable ASCII characters, not {client_id!r}")
    return (("x-client-id", client_id),)


def positive_timeout(timeout: float) -> float:
    """Check and return a timeout.

    Raises:
        ValueError: The timeout is not a positive, finite number of seconds.
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
