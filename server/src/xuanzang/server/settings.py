"""What an operator can set: each option is spelled once, and is a flag and an environment variable.

`--max-batch-sentences 16` and `XUANZANG_MAX_BATCH_SENTENCES=16` say the same; the flag wins.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, DirectoryPath, Field, FilePath, ValidationError, model_validator
from pydantic_settings import BaseSettings, CliApp, SettingsConfigDict

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


class Settings(BaseSettings):
    """Serve translation models over gRPC. A flag is also an environment variable: --log-level, XUANZANG_LOG_LEVEL."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        frozen=True,
        cli_prog_name=PROGRAM,
        cli_kebab_case=True,
        cli_implicit_flags="toggle",
        cli_hide_none_type=True,
    )

    models: DirectoryPath = Field(
        Path("models"),
        description="Folder of the bundles to serve, laid out as MODEL/VERSION/.",
        validate_default=False,
    )
    address: Address = Field("127.0.0.1:50051", description="Where to serve gRPC; port 0 takes any free one.")
    metrics_address: Address = Field(
        "127.0.0.1:9464", description="Where Prometheus scrapes http://HOST:PORT/metrics; port 0 takes any free one."
    )
    provider: Literal["cpu", "cuda", "auto"] = Field(
        "auto", description="What runs the models; auto takes cuda where onnxruntime offers it, else cpu."
    )
    workers: int = Field(0, ge=0, le=256, description="Threads that translate; 0: one per usable core.")
    intra_op_threads: int = Field(1, ge=1, le=256, description="Threads that each worker uses inside one operation.")
    kernels: bool = Field(
        default=True,
        description="Let onnxruntime compose attention and search, though xuanzang-kernels has them whole.",
    )
    shortlist: str = Field(
        "",
        description="Models to decode with the shortlists of their bundles, as zh-en,en-zh; * for those that have one.",
    )
    max_batch_sentences: int = Field(32, ge=1, le=1024, description="Most sentences decoded together by one worker.")
    max_join_source_tokens: int = Field(
        600,
        ge=1,
        le=1_000_000,
        description="Most source tokens of the sentences that join others at one step, who wait meanwhile.",
    )
    max_queue_tokens: int = Field(
        1_000_000,
        ge=1,
        le=1_000_000_000,
        description="Most tokens waiting, source and expected target times beam size; beyond it RESOURCE_EXHAUSTED.",
    )
    max_content_characters: int = Field(
        20_000, ge=1, le=1_000_000, description="Most characters of one text; a longer one gets INVALID_ARGUMENT."
    )
    max_message_bytes: int = Field(
        16 * 2**20, ge=1024, le=2**31 - 1, description="Largest request message; a larger one gets RESOURCE_EXHAUSTED."
    )
    max_concurrent_rpcs: int = Field(
        1024, ge=1, le=1_000_000, description="Most RPCs in flight; one more gets RESOURCE_EXHAUSTED."
    )
    max_stream_texts: int = Field(
        64, ge=1, le=10_000, description="Most texts of one stream in translation; then the stream is read no further."
    )
    drain_timeout_seconds: float = Field(
        30, ge=0, le=3600, description="On SIGTERM, longest to go on with the requests that were accepted."
    )
    tls_certificate: FilePath | None = Field(None, description="PEM file of the certificate chain; turns TLS on.")
    tls_key: FilePath | None = Field(None, description="PEM file of the certificate's private key.")
    tls_client_ca: FilePath | None = Field(
        None, description="PEM file of the authorities whose client certificates are accepted; turns mutual TLS on."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    log_format: Literal["json", "console"] = Field("json", description="One JSON object a line, or lines for people.")
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
