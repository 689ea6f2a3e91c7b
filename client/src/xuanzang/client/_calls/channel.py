"""Settings of the gRPC channel: target, options, credentials, metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import grpc

from xuanzang.client._calls.metadata import REQUEST_ID, Metadata
from xuanzang.client._values.options import TLSConfig

MAX_MESSAGE_BYTES = 64 * 1024 * 1024

_MAX_CLIENT_ID = 128
_MAX_CONNECTIONS = 64
_MAX_AUTOMATIC_CONNECTIONS = 16
_PROCESSES = "x-processes"
_MAX_DIGITS = 4
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")

_SERVICE_CONFIG = {
    "loadBalancingConfig": [{"round_robin": {}}],
    # A server that is starting or stopping says so and gets no calls. Retries are not gRPC's: it knows neither when an
    # answer is late nor which other address there is; see `_reliability`.
    "healthCheckConfig": {"serviceName": ""},
}


def options(
    *, max_message_bytes: int, tls: TLSConfig | None, uses_proxy: bool = True, is_shared: bool = True
) -> list[tuple[str, str | int]]:
    """Return the channel options: load balancing, health watching, keepalive, message sizes.

    Args:
        max_message_bytes: Maximum size of a message, sent or received.
        uses_proxy: True if a proxy that the environment names may see the data.
        is_shared: Whether channels of the process to the same address share its connection.
    """
    settings: list[tuple[str, str | int]] = [
        ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
        ("grpc.primary_user_agent", f"xuanzang-client/{version('xuanzang')}"),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.max_receive_message_length", max_message_bytes),
        # A dead connection is noticed within three seconds while calls wait on it. gRPC goes by the shorter of the two
        # timeouts (the second is a minute if unset), and would otherwise stop after two pings without data.
        ("grpc.keepalive_time_ms", 1_000),
        ("grpc.keepalive_timeout_ms", 1_800),
        ("grpc.http2.ping_timeout_ms", 1_800),
        ("grpc.http2.max_pings_without_data", 0),
        # A restarted server is found again within a second; gRPC's own maximum is two minutes.
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 1_000),
        ("grpc.enable_http_proxy", int(uses_proxy)),
        ("grpc.use_local_subchannel_pool", int(not is_shared)),
    ]
    if tls is not None and tls.server_name is not None:
        settings.append(("grpc.ssl_target_name_override", tls.server_name))
    return settings


def connections(targets: Sequence[str], count: int | None) -> Iterator[tuple[str, str]]:
    """Yield a name and the target of each connection: the first one to each target, then the second ones, and so on.

    Args:
        count: Connections to each target; None: as many as are used if a server says that it has several processes.

    Raises:
        ValueError: The count is out of range.
    """
    if count is not None and not 1 <= count <= _MAX_CONNECTIONS:
        raise ValueError(f"connections must be from 1 to {_MAX_CONNECTIONS}, not {count}")
    for number in range(1, (count or _MAX_AUTOMATIC_CONNECTIONS) + 1):
        yield from ((target if number == 1 else f"{target} (connection {number})", target) for target in targets)


def connections_for(metadata: Iterable[tuple[str, str | bytes]] | None) -> int:
    """Return how many connections a server asks for by the metadata of its answer, 1 if it says nothing.

    The kernel deals connections to the processes at random: of four for each, few processes get none.
    """
    processes = dict(metadata or ()).get(_PROCESSES, "1")
    is_number = isinstance(processes, str) and len(processes) <= _MAX_DIGITS and processes.isdecimal()
    return 4 * int(processes) if is_number and processes != "1" else 1


def opener(library: Any, tls: TLSConfig | None) -> Callable[..., Any]:
    """Return the function of `grpc` or `grpc.aio` that opens a channel to a target with `options`, over TLS or not."""
    if tls is None:
        opened: Callable[..., Any] = library.insecure_channel
        return opened
    credentials = grpc.ssl_channel_credentials(tls.root_certificates, tls.private_key, tls.certificate_chain)
    return partial(library.secure_channel, credentials=credentials)


def metadata(client_id: str | None, api_key: str | None = None, request_id: str | None = None) -> Metadata:
    """Return the metadata that every call carries.

    Args:
        request_id: Id of the call, or None for a random one.

    Raises:
        ValueError: The name is empty, too long or not printable ASCII, or the id is not valid.
    """
    if request_id is not None and not _REQUEST_ID.fullmatch(request_id):
        raise ValueError('request_id must be 1 to 128 letters, digits and "._:/+=-"')
    named = {"authorization": api_key and f"Bearer {api_key}", REQUEST_ID: request_id}
    others = tuple((name, value) for name, value in named.items() if value)
    if client_id is None:
        return others
    if not (1 <= len(client_id) <= _MAX_CLIENT_ID and client_id.isascii() and client_id.isprintable()):
        raise ValueError(f"client_id must be 1 to {_MAX_CLIENT_ID} printable ASCII characters, not {client_id!r}")
    return (("x-client-id", client_id), *others)


def positive_timeout(timeout: float) -> float:
    """Check and return a timeout.

    Raises:
        TypeError: The timeout is no number.
        ValueError: The timeout is not a positive, finite number of seconds.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout is a {type(timeout).__name__}, not a number of seconds")
    if not 0 < timeout < float("inf"):
        raise ValueError(f"timeout must be a positive number of seconds, not {timeout}")
    return timeout
