"""Settings of traces and the access log."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ObservationSettings(BaseModel):
    """What is recorded of single RPCs."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    tracing: bool = Field(
        default=False,
        description="Send traces by OTLP over gRPC; OpenTelemetry's own environment variables, such as "
        "OTEL_EXPORTER_OTLP_ENDPOINT, say where to and how many.",
    )
    access_log: str | None = Field(
        default=None,
        min_length=1,
        description="File to add a JSON object to for each RPC, without texts; - for standard output.",
    )
