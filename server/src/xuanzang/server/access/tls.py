"""TLS of the listener: certificate, key and authorities of clients, checked, and taken over when their files change."""

from __future__ import annotations

import logging
import math
import ssl
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from typing_extensions import override

from xuanzang.server.access.metrics import AccessMetrics
from xuanzang.server.watched_files import ReloadedContent

_LOGGER = logging.getLogger(__name__)

_WARNING_DAYS = 14
_SECONDS_PER_DAY = 86_400


class CertificateError(OSError):
    """The certificate of the server would be refused by every client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TLSFiles:
    """PEM files of a server with TLS."""

    certificate: Path
    """Certificate of the server, followed by the intermediate ones."""
    key: Path
    """Private key of the certificate."""
    client_ca: Path | None
    """Authorities of client certificates; None if clients need no certificate."""


class Certificates(NamedTuple):
    """Contents of the files, and their times of expiry."""

    key: bytes
    chain: bytes
    """Certificate of the server, and the intermediate ones."""
    authorities: bytes | None
    """Authorities of clients; None if clients need no certificate."""
    expiries: Mapping[str, float]
    """Unix seconds by kind of certificate."""


class ReloadedTLS(ReloadedContent[Certificates]):
    """Certificates of a server that follow their files: new connections get the new ones, old connections stay."""

    def __init__(self, files: TLSFiles, metrics: AccessMetrics) -> None:
        """Read the files, or raise CertificateError."""
        self._files, self._metrics = files, metrics
        watched = [file for file in (files.certificate, files.key, files.client_ca) if file]
        super().__init__(watched, kept="the old certificate stays in use", count=partial(metrics.reloaded, "tls"))
        self.first = self._read()
        """Certificates of the beginning."""
        # gRPC asks for changes in its own threads; a deque gives each to one of them.
        self._news: deque[Certificates] = deque(maxlen=1)
        metrics.watch("tls")
        metrics.set_expiries(self.first.expiries)

    @override
    def _read(self) -> Certificates:
        files = self._files
        expiries = {"server": check_certificate(files.certificate, files.key)}
        try:
            authorities = files.client_ca.read_bytes() if files.client_ca else None
            if authorities is not None:
                expiries["client_ca"] = _first_expiry(authorities.decode())
            return Certificates(files.key.read_bytes(), files.certificate.read_bytes(), authorities, expiries)
        except (OSError, ValueError) as error:
            raise CertificateError(f"authorities of clients {files.client_ca}: {error}") from error

    @override
    def _take_over(self, content: Certificates) -> None:
        self._news.append(content)
        self._metrics.set_expiries(content.expiries)
        _LOGGER.info("certificate reloaded", extra={"file": str(self._files.certificate)})

    def news(self) -> Certificates | None:
        """Return the change since the last call, from any thread; None without one."""
        try:
            return self._news.popleft()
        except IndexError:
            return None


def _first_expiry(authorities: str) -> float:
    """Return the earliest expiry of some authorities, Unix seconds."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_verify_locations(cadata=authorities)
    facts: list[dict[str, Any]] = context.get_ca_certs()
    return min((ssl.cert_time_to_seconds(each["notAfter"]) for each in facts), default=math.inf)


def check_certificate(certificate: Path, key: Path) -> float:
    """Check a certificate as its clients will, warn if it expires soon, and return the time of that, Unix seconds.

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
