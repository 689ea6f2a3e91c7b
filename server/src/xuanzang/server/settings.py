"""Settings of the server, each a flag and an environment variable.

`--max-batch-sentences 16` and `XUANZANG_MAX_BATCH_SENTENCES=16` are equivalent; the flag wins. Settings of the engine
and limits on RPCs are declared next to the code that they govern, in `engine/settings.py` and `rpc/limits.py`.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, DirectoryPath, Field, FilePath, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from xuanzang.command.settings import Positional, read_flags
from xuanzang.server.access.quota_counts import MAX_PROCESSES
from xuanzang.server.access.settings import ANYBODY, AccessSettings
from xuanzang.server.engine.hardware import usable_cores
from xuanzang.server.engine.settings import EngineSettings, PromotionSettings
from xuanzang.server.explanation.limits import ExplanationLimits
from xuanzang.server.rpc.limits import RpcLimits

PROGRAM = "xuanzang serve"
PREFIX = "XUANZANG_"
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+):(?P<port>[0-9]{1,5})")
_LOOPBACK = "127.0.0.1"
_CORES_OF_A_PROCESS = 3


class HostAndPort(NamedTuple):
    """Parts of an address."""

    host: str
    """Host name or IP address, without the brackets of IPv6."""
    port: int


def split_address(address: str) -> HostAndPort:
    """Split "host:port"; raise ValueError if the address does not have that form."""
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) > 65535:
        raise ValueError("must be host:port, such as 127.0.0.1:50051 or [::]:50051")
    return HostAndPort(match["host"].strip("[]"), int(match["port"]))


def is_loopback(host: str) -> bool:
    """Return whether a host name or IP address is this machine's own, which others cannot reach."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _checked_address(address: str) -> str:
    split_address(address)
    return address


def _admin_address(address: str) -> str:
    # Whoever says nothing else means this machine.
    return _checked_address(f"{_LOOPBACK}:{address}" if address.isdecimal() else address)


def _checked_processes(count: str) -> str:
    if count != "auto" and not (count.isascii() and count.isdecimal() and 1 <= int(count) <= MAX_PROCESSES):
        raise ValueError(f"must be auto or a number from 1 to {MAX_PROCESSES}")
    return count


Address = Annotated[str, AfterValidator(_checked_address)]


class Locations(BaseModel):
    """The folder of the models and the listening addresses."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    models: DirectoryPath = Field(default=Path("models"), validate_default=False)
    """Folder of the bundles to serve, laid out as MODEL/VERSION/."""
    tried_bundles: Path = Path("~/.cache/xuanzang/tried-bundles")
    """File of the bundles that have passed a trial; its folder keeps packed weights, 4 GB at most, and the unpacked
    language detector."""
    share_weights: bool = True
    """Share packed weights with other servers, in the folder of --tried-bundles."""
    address: Address = "127.0.0.1:50051"
    """Address to serve gRPC on; port 0: any free one."""
    metrics_address: Address = "127.0.0.1:9464"
    """Address to serve Prometheus metrics on, at http://HOST:PORT/metrics; port 0: any free one."""
    health_address: Address | None = None
    """Address to serve grpc.health.v1 on, too, in plain text; port 0: any free one; unset: on --address only."""
    processes: Annotated[str, AfterValidator(_checked_processes)] = "1"
    """Servers on one address, which divide the cores and the memory for keys and values; auto: one per three usable
    cores."""
    process_address: Address | None = None
    """Address of the first of several processes, for a balancer; the others have the next ports; unset: none."""
    admin_address: Annotated[str, AfterValidator(_admin_address)] | None = None
    """Address to serve the administration of models on, or a port of 127.0.0.1; unset: none."""

    @property
    def process_count(self) -> int:
        """Number of processes."""
        return self.advised_processes if self.processes == "auto" else int(self.processes)

    @property
    def advised_processes(self) -> int:
        """Number of processes that fill the usable cores."""
        return max(1, usable_cores() // _CORES_OF_A_PROCESS)

    @property
    def tried_file(self) -> Path | None:
        """Path of `tried_bundles`; None for a user without a home folder, as in some containers."""
        try:
            return self.tried_bundles.expanduser()
        except RuntimeError:
            return None


class Operation(BaseModel):
    """Logs, traces, TLS and the stop of the server."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    tracing: bool = False
    """Send traces by OTLP over gRPC, as OpenTelemetry's environment variables say, such as
    OTEL_EXPORTER_OTLP_ENDPOINT."""
    access_log: str | None = Field(default=None, min_length=1)
    """File to add a JSON object to for each RPC, without texts; - for standard output."""
    drain_timeout_seconds: float = Field(default=30, ge=0, le=3600)
    """Maximum seconds to finish accepted requests after SIGTERM; the rest are answered UNAVAILABLE."""
    tls_certificate: FilePath | None = None
    """PEM file of the certificate chain; turns TLS on, together with --tls-key."""
    tls_key: FilePath | None = None
    """PEM file of the certificate's private key."""
    tls_client_ca: FilePath | None = None
    """PEM file of the authorities whose client certificates are accepted; turns mutual TLS on."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged."""
    log_format: Literal["auto", "json", "console"] = "auto"
    """Format of log lines; auto: text for people on a terminal, else JSON."""
    probe: bool = False
    """Do not serve; exit with 0 if the server at --address is serving, else with 1."""


# --help lists the flags of the last base first.
class Settings(
    BaseSettings, Operation, AccessSettings, ExplanationLimits, RpcLimits, PromotionSettings, EngineSettings, Locations
):
    """Serve translation models over gRPC.

    A flag is also an environment variable: --log-level, XUANZANG_LOG_LEVEL.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("--tls-certificate and --tls-key must be given together")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ValueError("--tls-client-ca needs --tls-certificate and --tls-key")
        if self.probe:
            return self
        if self.tracing:
            _require_tracing()
        if self.keys_file:
            return self
        if not self.admits_anonymous:
            if self.anonymous is False:
                raise ValueError("--no-anonymous needs --keys-file FILE: nobody could call")
            raise ValueError(
                f"--address {self.address} is not a loopback address, so who may call must be said: --keys-file FILE, "
                "--tls-client-ca FILE, or --anonymous for anyone"
            )
        if self.glossary_writers not in ("", ANYBODY):
            raise ValueError("--glossary-writers names API keys, which need --keys-file FILE")
        if self.admin_address is not None and not self.admits_anonymous_administrators:
            raise ValueError(
                f"who may use --admin-address {self.admin_address} must be said: --keys-file FILE with keys of the "
                "role admin, --tls-client-ca FILE, or --admin-anonymous for anyone"
            )
        return self

    @property
    def admits_anonymous_administrators(self) -> bool:
        """True if administrators without an API key are answered."""
        if self.admin_anonymous is not None:
            return self.admin_anonymous
        host = split_address(self.admin_address).host if self.admin_address else _LOOPBACK
        return is_loopback(host) or self.tls_client_ca is not None

    @property
    def is_loopback(self) -> bool:
        """True if only programs of this machine reach the address."""
        return is_loopback(split_address(self.address).host)

    @property
    def admits_anonymous(self) -> bool:
        """True if callers without an API key are answered."""
        if self.anonymous is not None:
            return self.anonymous
        return self.is_loopback or (self.tls_client_ca is not None and self.keys_file is None)

    @property
    def tls_kind(self) -> str:
        """Encryption of connections: "off", "server" or "mutual"."""
        if self.tls_certificate is None:
            return "off"
        return "server" if self.tls_client_ca is None else "mutual"


class ServeCommand(Settings):
    """Serve translation models over gRPC, and before that pull those that are named and not there.

    Without --models it serves the folder `models`, else what was pulled, else the bundled models.

    A flag is also an environment variable: --log-level, XUANZANG_LOG_LEVEL.
    """

    pull: Annotated[list[str], Positional()] = Field(default_factory=list)
    """Published models, such as Helsinki-NLP/opus-mt-zh-en."""
    yes: bool = False
    """Pull without asking."""


def read_settings(arguments: Sequence[str]) -> Settings:
    """Read the settings from flags and the environment; exit after --help with 0, with 2 if they are not valid."""
    return read_flags(Settings, arguments, program=PROGRAM, variables=PREFIX)


def _require_tracing() -> None:
    if not _is_installed("opentelemetry.sdk") or not _is_installed("opentelemetry.exporter.otlp.proto.grpc"):
        raise ValueError("--tracing needs OpenTelemetry, the extra otel: pip install -e 'server[otel]' in a clone")
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if os.environ.get(variable, "grpc") != "grpc":
            raise ValueError(f"--tracing sends OTLP over gRPC: {variable} must be grpc or unset")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a package that it is in
        return False
