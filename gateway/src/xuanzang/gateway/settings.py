"""Settings of the gateway, each a flag and an environment variable.

`--max-texts 16` and `XUANZANG_GATEWAY_MAX_TEXTS=16` are equivalent; the flag wins.
"""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, FilePath, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from xuanzang.command.settings import read_flags

PROGRAM = "xuanzang gateway"

_PREFIX = "XUANZANG_GATEWAY_"
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+):(?P<port>[0-9]{1,5})")
_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^\s/*@A-Z]+")
_HOST = re.compile(r"\*|(\*\.)?[^\s:/*@\[\]]+|\[?[0-9a-fA-F:.]+\]?")
FORM_BYTES = 64 * 1024
"""Size of the other parts of an upload."""
LOOPBACK_HOSTS = ("loopback",)
"""Stands for all names and addresses of this machine that others do not reach."""
_BODY_MEMORY_BYTES = 64 * 2**20
_LARGEST_BODIES = 4


class HostAndPort(NamedTuple):
    """Parts of an address."""

    host: str
    """Host name or IP address, without the brackets of IPv6."""
    port: int
    """0 to 65535."""


def split_address(address: str) -> HostAndPort:
    """Split "host:port".

    Args:
        address: Address such as "127.0.0.1:8080" or "[::]:8080".

    Raises:
        ValueError: The address does not have that form.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) > 65535:
        raise ValueError("must be host:port, such as 127.0.0.1:8080 or [::]:8080")
    return HostAndPort(match["host"].strip("[]"), int(match["port"]))


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine's own.

    Args:
        host: Name or IP address, without the brackets of IPv6.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_loopback(address: str) -> bool:
    return is_loopback(split_address(address).host)


def _checked_address(address: str) -> str:
    split_address(address)
    return address


def _listed(setting: str) -> list[str]:
    return [each.strip() for each in setting.split(",") if each.strip()]


def _checked_origins(setting: str) -> str:
    if not all(map(_ORIGIN.fullmatch, _listed(setting))):
        raise ValueError("must be origins as browsers send them, such as https://a.example, without a path, or *")
    return setting


def _checked_hosts(setting: str) -> str:
    if not all(map(_HOST.fullmatch, _listed(setting))):
        raise ValueError("must be names without ports, such as mt.example or *.lan")
    return setting


class Settings(BaseSettings):
    """Answer HTTP with a xuanzang server.

    A flag is also an environment variable: --max-texts, XUANZANG_GATEWAY_MAX_TEXTS.
    """

    model_config = SettingsConfigDict(env_prefix=_PREFIX, frozen=True)

    server: str = Field(
        default="127.0.0.1:50051",
        min_length=1,
        description="gRPC address of the server, or several as host:port,host:port; XUANZANG_ADDRESS counts, too.",
    )
    server_connections: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="Connections to each address of --server; unset: as many as its number of processes asks for.",
    )
    address: Annotated[str, AfterValidator(_checked_address)] = Field(
        default="127.0.0.1:8080", description="Address to serve HTTP on; port 0: any free one."
    )
    grpc_address: Annotated[str, AfterValidator(_checked_address)] | None = Field(
        default=None,
        description="Address to serve the Open Inference Protocol and, with the extra google, Google Translation v3 "
        "over gRPC on; port 0: any free one; unset: none.",
    )
    anonymous: bool | None = Field(
        default=None,
        description="Pass on requests without an API key; unset: if all addresses are loopback ones.",
    )
    allow_insecure_keys: bool = Field(
        default=False, description="Send callers' API keys to a server on another machine without TLS, too."
    )
    listing_key: SecretStr | None = Field(
        default=None,
        description="API key for calls that list languages or models without one, as clients of LibreTranslate do; "
        "unset: none.",
    )
    server_tls: bool = Field(default=False, description="Connect to the server over TLS; implied by the next two.")
    server_tls_ca: FilePath | None = Field(
        default=None, description="PEM file of the authorities that sign the server's certificate; unset: public ones."
    )
    server_tls_name: str | None = Field(
        default=None, description="Name in the server's certificate, if it is not the host."
    )
    tls_certificate: FilePath | None = Field(
        default=None, description="PEM file of the certificate chain; turns HTTPS on, together with --tls-key."
    )
    tls_key: FilePath | None = Field(default=None, description="PEM file of the certificate's private key.")
    cors_origins: Annotated[str, AfterValidator(_checked_origins)] = Field(
        default="",
        description='Origins of pages that may call, such as "https://a.example,https://b.example"; "*": any.',
    )
    allowed_hosts: Annotated[str, AfterValidator(_checked_hosts)] = Field(
        default="",
        description='Names by which callers address this gateway, such as "mt.example,*.lan"; "loopback", "addresses" '
        'and "*" stand for groups; unset: by --address and --anonymous.',
    )
    page: bool = Field(default=True, description="Serve the page for browsers at /.")
    max_body_bytes: int = Field(
        default=2**20, ge=1024, le=2**26, description="Maximum size of a request's body; larger ones are answered 413."
    )
    max_texts: int = Field(default=1024, ge=1, le=1024, description="Maximum number of texts in a request.")
    max_concurrent_requests: int = Field(
        default=512, ge=1, le=100_000, description="Maximum requests in progress; further ones are answered 503."
    )
    max_connections: int = Field(
        default=1024,
        ge=1,
        le=100_000,
        description="Maximum connections; further ones replace those without a request in progress.",
    )
    address_share: float = Field(
        default=0.75,
        gt=0,
        le=1,
        description="Share of connections, requests, uploads, explanations, memory for bodies, and documents that one "
        "network address may take; 1 behind a proxy.",
    )
    caller_share: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="The same share, without connections, of one caller: a key or, where none is required, an address.",
    )
    max_body_memory_bytes: int | None = Field(
        default=None,
        ge=2**16,
        description="Maximum size of all bodies in memory; unset: 64 MiB, or four of the largest.",
    )
    request_timeout_seconds: float = Field(
        default=60, gt=0, le=3600, description="Maximum seconds for a request's translation, retries included."
    )
    receive_timeout_seconds: float = Field(
        default=10, gt=0, le=3600, description="Maximum seconds for the head of a request to arrive, and for its body."
    )
    send_timeout_seconds: float = Field(
        default=20, gt=0, le=3600, description="Maximum seconds in which a caller reads nothing of its answer."
    )
    keep_alive_seconds: int = Field(
        default=75, ge=1, le=3600, description="Seconds after which a connection without requests is closed."
    )
    drain_timeout_seconds: int = Field(
        default=30, ge=0, le=3600, description="Maximum seconds to finish accepted requests after SIGTERM."
    )
    metrics_address: Annotated[str, AfterValidator(_checked_address)] | None = Field(
        default=None,
        description="Address to serve Prometheus metrics on, at http://HOST:PORT/metrics; port 0: any free one; unset: "
        "none.",
    )
    max_document_bytes: int = Field(
        default=4 * 2**20, ge=1024, le=2**28, description="Maximum size of an uploaded document; 413 for larger ones."
    )
    max_documents: int = Field(
        default=32,
        ge=0,
        le=100_000,
        description="Maximum documents in memory, until they are fetched; 0: none are taken.",
    )
    max_running_documents: int = Field(
        default=4, ge=1, le=1000, description="Maximum documents in translation at a time; others wait."
    )
    max_document_processes: int = Field(
        default=2, ge=1, le=256, description="Maximum processes that read and write documents."
    )
    document_cpu_seconds: float = Field(
        default=5, ge=0.1, le=3600, description="Maximum CPU seconds to read a document, and again to write it."
    )
    document_memory_bytes: int = Field(
        default=2**30, ge=2**28, le=2**40, description="Maximum memory of a process that reads and writes documents."
    )
    document_timeout_seconds: float = Field(
        default=600, gt=0, le=86_400, description="Maximum seconds to translate a document, and again to fetch it."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Lowest level that is logged; lines of requests are info."
    )

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("--tls-certificate and --tls-key must be given together")
        try:
            if self.tls_certificate:
                # An empty password, where ssl would ask for one at the terminal.
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.tls_certificate, self.tls_key, password="")
        except OSError as error:
            files = f"--tls-certificate {self.tls_certificate} and --tls-key {self.tls_key}"
            raise ValueError(f"{files} are not a certificate and its unencrypted key, in PEM: {error}") from error
        try:
            if self.server_tls_ca:
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(self.server_tls_ca)
        except OSError as error:
            raise ValueError(f"--server-tls-ca {self.server_tls_ca} holds no certificates in PEM: {error}") from error
        return self

    @model_validator(mode="after")
    def _check_access(self) -> Self:
        if self.anonymous is None and not self._is_loopback:
            name, address = next(each for each in self._addresses.items() if not _is_loopback(each[1]))
            raise ValueError(
                f"{name} {address} is not a loopback address, so who may call must be said: --anonymous for "
                "anyone whom the server answers, --no-anonymous for holders of API keys, which the server must know"
            )
        return self

    @model_validator(mode="after")
    def _check_listing_key(self) -> Self:
        key = self.listing_key.get_secret_value() if self.listing_key else ""
        # The message must not show it.
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ValueError("--listing-key must be printable ASCII characters without spaces")
        return self

    @model_validator(mode="after")
    def _check_memory(self) -> Self:
        least = self._largest_body_bytes
        for name, share in (("address", self.address_share), ("caller", self.caller_share)):
            if self.body_memory_bytes * share < least:
                raise ValueError(
                    f"--max-body-memory-bytes {self.body_memory_bytes} with --{name}-share {share:g} leaves no room "
                    f"for the largest body, {least} bytes"
                )
        return self

    @property
    def body_memory_bytes(self) -> int:
        """Maximum size of all bodies in memory."""
        if self.max_body_memory_bytes is not None:
            return self.max_body_memory_bytes
        return max(_BODY_MEMORY_BYTES, _LARGEST_BODIES * self._largest_body_bytes)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that callers may name as the gateway's; empty: any."""
        if self.allowed_hosts:
            hosts = tuple(map(str.lower, _listed(self.allowed_hosts)))
            return () if "*" in hosts else hosts
        if _is_loopback(self.address):
            return LOOPBACK_HOSTS
        # Without a key, a page that has pointed its name at this address would read the answers.
        return (*LOOPBACK_HOSTS, "addresses") if self.admits_anonymous else ()

    @property
    def admits_anonymous(self) -> bool:
        """True if requests without an API key are passed on."""
        return self._is_loopback if self.anonymous is None else self.anonymous

    @property
    def _is_loopback(self) -> bool:
        return all(map(_is_loopback, self._addresses.values()))

    @property
    def _addresses(self) -> dict[str, str]:
        served = {"--address": self.address, "--grpc-address": self.grpc_address}
        return {name: address for name, address in served.items() if address is not None}

    @property
    def _largest_body_bytes(self) -> int:
        return max(self.max_body_bytes, self.max_document_bytes + FORM_BYTES)


def read_settings(arguments: Sequence[str]) -> Settings:
    """Read the settings from flags and the environment; exit if they are invalid.

    Raises:
        SystemExit: With status 2, after one line per fault on stderr; with status 0, after `--help`.
    """
    # The server of all commands, unless a variable of the gateway or a flag names another.
    server = os.environ.get("XUANZANG_ADDRESS", "")
    default = [f"--server={server}"] if server and f"{_PREFIX}SERVER" not in os.environ else []
    return read_flags(Settings, [*default, *arguments], program=PROGRAM, variables=_PREFIX)
