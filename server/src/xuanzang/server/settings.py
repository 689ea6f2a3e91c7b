"""Settings of the server: each is written once, and is a flag and an environment variable.

Those of the engine and the RPC limits stand with the code that they govern.

`--max-batch-sentences 16` and `XUANZANG_MAX_BATCH_SENTENCES=16` say the same; the flag wins.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    DirectoryPath,
    Field,
    FilePath,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, CliApp, SettingsConfigDict

from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.rpc.limits import RpcLimits

PROGRAM = "xuanzang-server"

_PREFIX = "XUANZANG_"
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+):(?P<port>[0-9]{1,5})")


class HostAndPort(NamedTuple):
    """The two parts of an address."""

    host: str
    """Name or number, without the brackets of IPv6."""
    port: int
    """0 to 65535."""


def split_address(address: str) -> HostAndPort:
    """Split "host:port".

    Args:
        address: Such as "127.0.0.1:50051" or "[::]:50051".

    Returns:
        Its parts.

    Raises:
        ValueError: It is not of that form.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) > 65535:
        raise ValueError("must be host:port, such as 127.0.0.1:50051 or [::]:50051")
    return HostAndPort(match["host"].strip("[]"), int(match["port"]))


def _checked_address(address: str) -> str:
    split_address(address)
    return address


Address = Annotated[str, AfterValidator(_checked_address)]


class Locations(BaseModel):
    """Where the models lie, and where the server listens."""

    model_config = ConfigDict(frozen=True)

    models: DirectoryPath = Field(
        default=Path("models"),
        description="Folder of the bundles to serve, laid out as MODEL/VERSION/.",
        validate_default=False,
    )
    address: Address = Field(default="127.0.0.1:50051", description="Where to serve gRPC; port 0 takes any free one.")
    metrics_address: Address = Field(
        default="127.0.0.1:9464",
        description="Where Prometheus scrapes http://HOST:PORT/metrics; port 0 takes any free one.",
    )


# Flags are listed in reverse order of the bases.
class Settings(BaseSettings, RpcLimits, EngineSettings, Locations):
    """Serve translation models over gRPC. A flag is also an environment variable: --log-level, XUANZANG_LOG_LEVEL."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        frozen=True,
        cli_prog_name=PROGRAM,
        cli_kebab_case=True,
        cli_implicit_flags="toggle",
        cli_hide_none_type=True,
    )

    drain_timeout_seconds: float = Field(
        default=30, ge=0, le=3600, description="On SIGTERM, longest to go on with the requests that were accepted."
    )
    tls_certificate: FilePath | None = Field(
        default=None, description="PEM file of the certificate chain; turns TLS on."
    )
    tls_key: FilePath | None = Field(default=None, description="PEM file of the certificate's private key.")
    tls_client_ca: FilePath | None = Field(
        None, description="PEM file of the authorities whose client certificates are accepted; turns mutual TLS on."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level that is logged."
    )
    log_format: Literal["json", "console"] = Field(
        default="json", description="One JSON object a line, or lines for people."
    )
    probe: bool = Field(
        default=False, description="Only ask the server at --address whether it is serving: exit 0 if it is, else 1."
    )

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("--tls-certificate and --tls-key must be given together")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ValueError("--tls-client-ca needs --tls-certificate and --tls-key")
        return self


def read_settings(arguments: Sequence[str]) -> Settings:
    """Read the settings from flags and the environment; end the program if they are wrong.

    Args:
        arguments: Flags, without the program's name.

    Returns:
        Valid settings.

    Raises:
        SystemExit: 2 after one line per fault on stderr; 0 after `--help`.
    """
    try:
        return CliApp.run(Settings, cli_args=list(arguments))
    except ValidationError as error:
        for fault in error.errors():
            sys.stderr.write(f"{PROGRAM}: error: {_fault_line(fault['loc'], fault['msg'], fault['input'])}\n")
        raise SystemExit(2) from None


def _fault_line(location: tuple[int | str, ...], message: str, value: object) -> str:
    message = message.removeprefix("Value error, ")
    if not location:
        return message
    name = str(location[0])
    return f"--{name.replace('_', '-')} ({_PREFIX}{name.upper()}): {message}, got {str(value)!r}"
