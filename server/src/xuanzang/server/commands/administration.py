"""The one way in which commands call the administration of a running server: its options, its channel, its key."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from xuanzang.admin.v1 import admin_pb2_grpc
from xuanzang.server.settings import is_loopback, split_address

ADDRESS = "XUANZANG_ADMIN_ADDRESS"
_KEY = "XUANZANG_API_KEY"
# A bundle is tried for five minutes at the most, then loaded.
_TIMEOUT_SECONDS = 600.0


class Administration:
    """Calls to a running server; every one carries the key and the time limit.

    Args:
        channel: Open channel.
        metadata: Metadata with the API key; empty without one.
        timeout: Time limit of a call in seconds.
    """

    def __init__(self, channel: grpc.Channel, *, metadata: tuple[tuple[str, str], ...], timeout: float) -> None:
        self._stub = admin_pb2_grpc.ModelServiceStub(channel)
        self._metadata = metadata
        self._timeout = timeout

    def call(self, method: str, request: Any) -> Any:
        """Call a method of the service by its name and return the response.

        Raises:
            grpc.RpcError: The call failed.
        """
        return getattr(self._stub, method)(request, metadata=self._metadata, timeout=self._timeout)


def add_connection_options(parser: ArgumentParser, address: str) -> None:
    """Add the options that say which server is administered, and how it is reached."""
    parser.add_argument(
        "--admin-address",
        default=address,
        metavar="HOST:PORT",
        help=f"address that the server has as --admin-address, or a port of 127.0.0.1 ({ADDRESS})",
    )
    parser.add_argument("--tls", action="store_true", help="connect over TLS; implied by the --tls-… options")
    parser.add_argument(
        "--tls-ca",
        type=Path,
        metavar="PEM",
        help="authorities trusted to sign the server's certificate, or that certificate itself (default: public ones)",
    )
    parser.add_argument("--tls-cert", type=Path, metavar="PEM", help="client certificate, if the server asks for one")
    parser.add_argument("--tls-key", type=Path, metavar="PEM", help="private key of the client certificate")
    parser.add_argument("--tls-server-name", metavar="NAME", help="name in the server's certificate, if not the host")
    parser.add_argument(
        "--api-key-file", type=Path, metavar="PATH", help=f"file with a key of the role admin (or the key in ${_KEY})"
    )
    parser.add_argument(
        "--allow-insecure-key", action="store_true", help="send the API key to another machine without TLS, too"
    )
    parser.add_argument(
        "--timeout-seconds", type=float, default=_TIMEOUT_SECONDS, metavar="SECONDS", help="default: %(default)g"
    )


@contextmanager
def administration(options: Namespace, environment: Mapping[str, str]) -> Iterator[Administration]:
    """Open the connection that the options describe, and close it afterwards.

    Args:
        options: Parsed options of `add_connection_options`.
        environment: Environment variables, for the API key.

    Raises:
        OSError: A file cannot be read.
        ValueError: The address or a combination of options is not valid, or the key would cross a network in plain
            text.
    """
    address = options.admin_address
    address = f"127.0.0.1:{address}" if address.isdecimal() else address
    try:
        host = split_address(address).host
    except ValueError as error:
        raise ValueError(f"--admin-address {error}, not {address!r}") from error
    credentials = _credentials(options)
    key = _key(options, environment)
    if key and credentials is None and not (is_loopback(host) or options.allow_insecure_key):
        raise ValueError(
            f"the API key is not sent to {host} in plain text: give --tls-ca PEM or --tls, or --allow-insecure-key if "
            "the network is trusted"
        )
    metadata = (("authorization", f"Bearer {key}"),) if key else ()
    # A proxy that the environment names would see what is sent in plain text.
    channel_options: list[tuple[str, str | int]] = [("grpc.enable_http_proxy", int(credentials is not None))]
    if options.tls_server_name:
        channel_options.append(("grpc.ssl_target_name_override", options.tls_server_name))
    opened = (
        grpc.insecure_channel(address, channel_options)
        if credentials is None
        else grpc.secure_channel(address, credentials, channel_options)
    )
    with opened as channel:
        yield Administration(channel, metadata=metadata, timeout=options.timeout_seconds)


def uses_tls(options: Namespace) -> bool:
    """Return whether the options ask for TLS.

    Args:
        options: Parsed options of `add_connection_options`.
    """
    return bool(options.tls or options.tls_server_name or options.tls_ca or options.tls_cert or options.tls_key)


def _credentials(options: Namespace) -> grpc.ChannelCredentials | None:
    """Return the credentials of a channel with TLS; None if no option asks for it."""
    if (options.tls_cert is None) != (options.tls_key is None):
        raise ValueError(
            "--tls-cert and --tls-key must be given together: they are the client's own; the server's certificate is "
            "trusted by --tls-ca"
        )
    if not uses_tls(options):
        return None
    files: list[Path | None] = [options.tls_ca, options.tls_key, options.tls_cert]
    authorities, key, certificate = (file.read_bytes() if file else None for file in files)
    return grpc.ssl_channel_credentials(authorities, key, certificate)


def _key(options: Namespace, environment: Mapping[str, str]) -> str:
    file: Path | None = options.api_key_file
    key = file.read_text(encoding="utf-8", errors="replace").strip() if file else environment.get(_KEY, "")
    if file and not key:
        raise ValueError(f"{file} holds no API key")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ValueError("the API key must be printable ASCII characters without spaces")
    return key
