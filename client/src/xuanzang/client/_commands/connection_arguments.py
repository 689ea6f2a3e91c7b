"""Arguments that say which server to call and how, and the client that they describe."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from xuanzang.client._client import TranslationClient
from xuanzang.client._values.options import TLSConfig

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - it has no other name
"""Commands of a parser, for each command to add its own, with its arguments and function."""


def server_options(default_address: str, *, connections: int | None = None) -> argparse.ArgumentParser:
    """Return a parent parser with the options of the server and of the connections to it, with their defaults."""
    shared = argparse.ArgumentParser(add_help=False)
    group = shared.add_argument_group("server")
    group.add_argument(
        "--address",
        default=default_address,
        metavar="HOST[:PORT]",
        help="server, or several as host:port,host:port; without a port it is 50051 (default: $XUANZANG_ADDRESS, else "
        "localhost:50051)",
    )
    group.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="maximum wait for an answer, retries included (default: 60)",
    )
    group.add_argument(
        "--wait",
        action="store_true",
        help="wait for a server that is not there yet, until --timeout; without it, 3 seconds",
    )
    group.add_argument(
        "--connections",
        type=int,
        default=connections,
        metavar="N",
        help=f"connections to each address (default: {connections or 'as many as its number of processes asks for'})",
    )
    group.add_argument("--client-id", metavar="NAME", help="name of the caller, by which a busy server takes turns")
    add_security(group)
    return shared


def add_security(group: argparse._ActionsContainer) -> None:
    """Add the options of the API key and of TLS."""
    # No option takes the key itself: other users of the machine can read the arguments of a process.
    group.add_argument(
        "--api-key-file",
        type=Path,
        metavar="FILE",
        help="file with the API key (default: the key in $XUANZANG_API_KEY)",
    )
    group.add_argument(
        "--allow-insecure-key", action="store_true", help="send the API key to another machine without TLS, too"
    )
    group.add_argument("--tls", action="store_true", help="connect over TLS; implied by the --tls-… options")
    group.add_argument(
        "--tls-ca",
        type=Path,
        metavar="PEM",
        help="authorities trusted to sign the server's certificate, or that certificate itself (default: public ones)",
    )
    group.add_argument("--tls-cert", type=Path, metavar="PEM", help="client certificate, if the server asks for one")
    group.add_argument("--tls-key", type=Path, metavar="PEM", help="private key of the client certificate")
    group.add_argument("--tls-server-name", metavar="NAME", help="name in the server's certificate, if not the host")


class Connection(NamedTuple):
    """Settings of a client, named as its arguments are."""

    address: str | Sequence[str]
    tls: TLSConfig | None
    timeout: float
    client_id: str | None
    api_key: str | None
    allow_insecure_key: bool
    wait_for_server: bool = False
    connections: int | None = None


def connection(arguments: argparse.Namespace) -> Connection:
    """Return the address, timeout, name, key and TLS settings of the arguments.

    Raises:
        OSError: A PEM file or the file of the API key cannot be read.
        ValueError: The file of the API key is empty, or a combination of options is not valid.
    """
    addresses = arguments.address.split(",")
    return Connection(
        address=addresses if len(addresses) > 1 else arguments.address,
        tls=tls_config(arguments),
        timeout=arguments.timeout,
        client_id=arguments.client_id,
        api_key=key_in(arguments.api_key_file),
        allow_insecure_key=arguments.allow_insecure_key,
        wait_for_server=arguments.wait,
        connections=arguments.connections,
    )


def open_client(arguments: argparse.Namespace) -> TranslationClient:
    """Open a client with the settings of the arguments.

    Raises:
        OSError: A PEM file or the file of the API key cannot be read.
        ValueError: One of the settings is invalid, or the key would cross a network in plain text.
    """
    return TranslationClient(**connection(arguments)._asdict())


def tls_config(arguments: argparse.Namespace) -> TLSConfig | None:
    """Return the TLS settings of the arguments; None if no option asks for TLS.

    Raises:
        OSError: A PEM file cannot be read.
        ValueError: There is only one of a certificate and its key.
    """
    if (arguments.tls_cert is None) != (arguments.tls_key is None):
        raise ValueError(
            "--tls-cert and --tls-key must be given together: they are the client's own; the server's certificate is "
            "trusted by --tls-ca"
        )
    pems = [path and path.read_bytes() for path in (arguments.tls_ca, arguments.tls_cert, arguments.tls_key)]
    if not arguments.tls and not arguments.tls_server_name and all(pem is None for pem in pems):
        return None
    authorities, certificate, key = pems
    name = arguments.tls_server_name
    return TLSConfig(root_certificates=authorities, certificate_chain=certificate, private_key=key, server_name=name)


def key_in(file: Path | None) -> str | None:
    """Return the API key in a file; None without one."""
    if file is None:
        return None
    key = file.read_text(encoding="utf-8", errors="replace").strip()
    if not key:
        raise ValueError(f"{file} holds no API key")
    return key
