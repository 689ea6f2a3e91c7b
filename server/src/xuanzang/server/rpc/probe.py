"""Asks a server whether it is serving, for health checks of containers that run one command."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_TIMEOUT_SECONDS = 5.0


def probe(address: str, *, tls_certificate: Path | None, tls_key: Path | None) -> bool:
    """Ask for the health of the server as a whole.

    Args:
        address: As the server was given it; 0.0.0.0 and [::] are asked on this machine.
        tls_certificate: The server's own certificate, the only one that is trusted; None for plain text.
        tls_key: Its key; the certificate is shown to a server that wants one from its clients.

    Returns:
        Whether it answered SERVING.
    """
    target = address.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]")  # noqa: S104 - nothing is bound here
    try:
        with _channel(target, tls_certificate, tls_key) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=_TIMEOUT_SECONDS)
    except (OSError, grpc.RpcError):
        return False
    serving: bool = answer.status == health_pb2.HealthCheckResponse.SERVING
    return serving


def _channel(target: str, certificate: Path | None, key: Path | None) -> grpc.Channel:
    if certificate is None or key is None:
        return grpc.insecure_channel(target)
    credentials = grpc.ssl_channel_credentials(certificate.read_bytes(), key.read_bytes(), certificate.read_bytes())
    # The server is asked by its number but certified by its name.
    options = (("grpc.ssl_target_name_override", _certified_name(target, certificate)),)
    return grpc.secure_channel(target, credentials, options)


def _certified_name(target: str, certificate: Path) -> str:
    """A name that the certificate at the target holds for; it must be the given one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(certificate)
    context.set_alpn_protocols(["h2"])
    host, _, port = target.rpartition(":")
    with (
        socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_SECONDS) as connection,
        context.wrap_socket(connection) as secure,
    ):
        shown: dict[str, Any] = secure.getpeercert() or {}
    (_, name), *_ = shown["subjectAltName"]
    return str(name).replace("*", "any")
