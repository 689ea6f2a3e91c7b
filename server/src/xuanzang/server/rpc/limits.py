"""Limits on what callers may send."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class RpcLimits(BaseModel):
    """Limits on messages, RPCs and streams."""

    model_config = ConfigDict(frozen=True)

    max_message_bytes: int = Field(
        default=16 * 2**20,
        ge=1024,
        le=2**31 - 1,
        description="Maximum size of a request message; a larger one gets RESOURCE_EXHAUSTED.",
    )
    max_concurrent_rpcs: int = Field(
        default=1024, ge=1, le=1_000_000, description="Maximum RPCs in progress; further ones get RESOURCE_EXHAUSTED."
    )
    max_stream_texts: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="Maximum texts of one stream in translation; the next is read when one of them is answered.",
    )
