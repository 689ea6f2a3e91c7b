"""TLS of the listener: certificate, key and authorities of clients, taken over when their files change."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import grpc

from xuanzang.server.access.metrics import AccessMetrics
from xuanzang.server.rpc.certificates import CertificateError, check_certificate
from xuanzang.server.watched_files import WatchedFiles

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TLSFiles:
    """PEM files of a server with TLS."""

    certificate: Path
    """Certificate of the server, followed by the intermediate ones."""
    key: Path
    """Private key of the certificate."""
    client_ca: Path | None
    """Authorities of client certificates; None if clients need no certificate."""


class ReloadedTLS:
    """Credentials of a server that follow their files: new connections get the new ones, old connections stay."""

    def __init__(self, files: TLSFiles, metrics: AccessMetrics) -> None:
        """Read the files.

        Args:
            files: PEM files.
            metrics: Metrics of access.

        Raises:
            CertificateError: A file is not valid.
        """
        self._files = files
        self._metrics = metrics
        self._watched = WatchedFiles(file for file in (files.certificate, files.key, files.client_ca) if file)
        # gRPC asks for news in threads of its own; a deque gives each to one of them.
        self._news: deque[grpc.ServerCertificateConfiguration] = deque(maxlen=1)
        self.credentials: grpc.ServerCredentials = grpc.dynamic_ssl_server_credentials(
            _configuration(files),
            self._fetch,  # type: ignore[arg-type]  # the stub does not know that None means no change
            require_client_authentication=files.client_ca is not None,
        )
        metrics.watch("tls")

    async def reload_if_changed(self) -> None:
        """Read the files again if one has changed; files that do not go together change nothing, and are logged."""
        if not await asyncio.to_thread(self._watched.have_changed):
            return
        try:
            configuration = await asyncio.to_thread(_configuration, self._files)
        except CertificateError as error:
            self._metrics.reloaded("tls", ok=False)
            _LOGGER.error("the old certificate stays in use", extra={"reason": str(error)})  # noqa: TRY400 - it is enough
            return
        self._news.append(configuration)
        self._metrics.reloaded("tls", ok=True)
        _LOGGER.info("certificate reloaded", extra={"file": str(self._files.certificate)})

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """Return what has changed since the last handshake; None if nothing has."""
        try:
            return self._news.popleft()
        except IndexError:
            return None


def _configuration(files: TLSFiles) -> grpc.ServerCertificateConfiguration:
    check_certificate(files.certificate, files.key)
    try:
        authorities = files.client_ca.read_bytes() if files.client_ca else None
        if authorities is not None:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=authorities.decode())
        pair = files.key.read_bytes(), files.certificate.read_bytes()
    except (OSError, ValueError) as error:
        raise CertificateError(f"authorities of clients {files.client_ca}: {error}") from error
    return grpc.ssl_server_certificate_configuration([pair], root_certificates=authorities)
