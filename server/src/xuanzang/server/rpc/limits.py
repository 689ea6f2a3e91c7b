"""Limits on what callers may send."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

SMALL_BYTES: Final = 8 * 2**10
"""Messages of up to this size are decoded and checked on the event loop, in two milliseconds at most."""


class RpcLimits(BaseModel):
    """Limits on messages, RPCs, streams and connections."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    max_message_bytes: int = Field(default=16 * 2**20, ge=1024, le=2**31 - 1)
    """Maximum size of a request message; a larger one gets RESOURCE_EXHAUSTED."""
    max_concurrent_rpcs: int = Field(default=1024, ge=1, le=1_000_000)
    """Maximum RPCs in progress; further ones get RESOURCE_EXHAUSTED."""
    max_address_rpcs: int = Field(default=768, ge=1, le=1_000_000)
    """Maximum RPCs in progress of one network address; raise it behind a proxy."""
    max_caller_rpcs: int = Field(default=512, ge=1, le=1_000_000)
    """Maximum RPCs in progress of one caller: an x-client-id at one network address, or the address."""
    max_address_streams: int = Field(default=256, ge=1, le=1_000_000)
    """Maximum streams of requests in progress of one network address."""
    max_caller_streams: int = Field(default=64, ge=1, le=1_000_000)
    """Maximum streams of requests in progress of one caller."""
    reserved_rpcs: int = Field(default=64, ge=0, le=1_000_000)
    """Part of --max-concurrent-rpcs, a quarter at most, for network addresses without RPCs in progress."""
    max_connections: int = Field(default=8192, ge=1, le=1_000_000)
    """Maximum connections, at most half of the process's files; further ones are closed."""
    max_connection_rpcs: int = Field(default=256, ge=1, le=1_000_000)
    """Maximum RPCs in progress of one connection; clients hold the rest."""
    stream_idle_seconds: float = Field(default=300, gt=0, le=86_400)
    """Maximum seconds that an RPC waits for its caller's message while it owes no answer."""
    connection_idle_seconds: float = Field(default=600, ge=1, le=86_400)
    """Seconds after which a connection without RPCs is closed."""
    connection_age_seconds: float | None = Field(default=None, ge=1, le=10**7)
    """Seconds after which a caller must connect anew and finds added servers; RPCs in progress are finished; unset:
    never."""
    reflection: bool = True
    """Describe the API to tools such as grpcurl."""
    max_stream_texts: int = Field(default=64, ge=1, le=10_000)
    """Maximum texts of one stream in translation."""
