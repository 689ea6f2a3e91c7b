"""The probe of `xuanzang serve --probe`: whether a server at an address answers SERVING."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from xuanzang.server.settings import Settings

_PROBE_SECONDS = 5.0


def probe(settings: Settings) -> bool:
    """Return whether the server at the addresses of some settings answers SERVING."""
    if settings.health_address:
        return is_serving(settings.health_address)
    client_key = settings.tls_key if settings.tls_client_ca else None
    return is_serving(settings.address, tls_certificate=settings.tls_certificate, tls_key=client_key)


def is_serving(address: str, *, tls_certificate: Path | None = None, tls_key: Path | None = None) -> bool:
    """Return whether a server as a whole answers SERVING.

    Over TLS only the server's own certificate is trusted. To a server that requires client certificates it is presented
    as well, with its key.
    """
    try:
        with _channel(address, tls_certificate, tls_key) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=_PROBE_SECONDS)
    except (OSError, grpc.RpcError):
        return False
    serving: bool = answer.status == health_pb2.HealthCheckResponse.SERVING
    return serving


def _channel(address: str, certificate: Path | None, client_key: Path | None) -> grpc.Channel:
    """Connect to a server by its own certificate; OSError: it presents another, or a file cannot be read."""
    target = address.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]")  # noqa: S104 - nothing is bound here
    if certificate is None:
        return grpc.insecure_channel(target, (("grpc.enable_http_proxy", 0),))
    trusted = certificate.read_bytes()
    own = (client_key.read_bytes(), trusted) if client_key else (None, None)
    credentials = grpc.ssl_channel_credentials(trusted, *own)
    # The connection is made to an IP address; the certificate holds for a host name.
    options = (("grpc.ssl_target_name_override", _certified_name(target, certificate)),)
    return grpc.secure_channel(target, credentials, options)


def _certified_name(target: str, certificate: Path) -> str:
    """Return a host name of the certificate that the target presents, which must be the given one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(certificate)
    context.set_alpn_protocols(["h2"])
    host, _, port = target.rpartition(":")
    with (
        socket.create_connection((host.strip("[]"), int(port)), _PROBE_SECONDS) as connection,
        context.wrap_socket(connection) as secure,
    ):
        shown: dict[str, Any] = secure.getpeercert() or {}
    (_, name), *_ = shown["subjectAltName"]
    return str(name).replace("*", "any")
