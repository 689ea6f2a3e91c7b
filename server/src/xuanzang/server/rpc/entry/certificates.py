"""Checks of the server's own certificate before it serves: the key belongs to it, and it is valid today."""

from __future__ import annotations

import logging
import ssl
import time
from pathlib import Path
from typing import Any

_LOGGER = logging.getLogger(__name__)

_WARNING_DAYS = 14
_SECONDS_PER_DAY = 86_400


class CertificateError(OSError):
    """The certificate of the server would be refused by every client."""


def check_certificate(certificate: Path, key: Path) -> float:
    """Check a certificate as its clients will, and log a warning if it expires soon.

    Args:
        certificate: PEM file of the certificate chain.
        key: PEM file of the private key.

    Returns:
        Time at which the certificate expires, Unix seconds.

    Raises:
        CertificateError: A file cannot be read, the key belongs to another certificate, or the certificate has expired
            or is not valid yet.
    """
    try:
        facts = _verified(certificate, key)
    except ssl.SSLCertVerificationError as error:
        raise CertificateError(f"certificate {certificate}: {error.verify_message}") from error
    except (OSError, ValueError) as error:
        raise CertificateError(f"certificate {certificate} with key {key}: {error}") from error
    expiry = ssl.cert_time_to_seconds(facts["notAfter"])
    days = (expiry - time.time()) / _SECONDS_PER_DAY
    if days < _WARNING_DAYS:
        _LOGGER.warning("the certificate expires soon", extra={"days": round(days, 1), "file": str(certificate)})
    return expiry


def _verified(certificate: Path, key: Path) -> dict[str, Any]:
    """Return the facts of a certificate that a client trusts; Python's ssl verifies only in a handshake."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(certificate, key)
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False
    client_context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client_context.load_verify_locations(certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    facts: dict[str, Any] = client.getpeercert() or {}
    return facts
