"""Limits on explanations."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ExplanationLimits(BaseModel):
    """Limits on how many explanations are made, and on their size."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    max_explanations: int = Field(default=2, ge=0, le=64)
    """Maximum translations explained at once; further ones get RESOURCE_EXHAUSTED. 0: none is."""
    max_explained_tokens: int = Field(default=128, ge=1, le=1024)
    """Maximum source tokens of a sentence that is explained, and steps that are shown."""
    max_explained_weights: int = Field(default=1_000_000, ge=1, le=16_000_000)
    """Maximum weights of attention in one explanation, of 4 bytes each."""
