"""Read `quality.json`: the model that estimates from a search whether its translation is acceptable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.files import PARSED, read_document

QUALITY = "quality.json"
FORMAT = 1
# A real one has some 5 KB.
MAX_QUALITY_BYTES = 1 << 18

# Far beyond what any fit yields; it keeps sums finite.
Number = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]


class Feature(BaseModel):
    """One measurement of a sentence. Weights are of the standardised value."""

    model_config = PARSED

    name: str
    mean: Number
    deviation: Annotated[Number, Field(gt=0)]
    """Standard deviation over the pairs of the fit, above 0."""
    weight: Number
    """Weight in the logit."""
    square_weight: Number
    """Weight of its square in the logit."""


class FlagLimits(BaseModel):
    """Usual bounds for the pair of languages."""

    model_config = PARSED

    min_token_ratio: Number
    """Target tokens per source token, end tokens counted, above 0."""
    max_token_ratio: Number
    max_low_attention_share: Number
    """Share of the source tokens that got little attention, 0 to 1."""


class QualityHead(BaseModel):
    """Logistic regression over features of a search, fitted on held-out pairs."""

    model_config = PARSED

    features: Annotated[tuple[Feature, ...], Field(min_length=1, max_length=64)]
    intercept: Number
    limits: FlagLimits


class _Document(QualityHead):
    format: Literal[1]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len({feature.name for feature in self.features}) < len(self.features):
            raise ValueError("a feature is named twice")
        limits = self.limits
        if not (0 < limits.min_token_ratio < limits.max_token_ratio and 0 <= limits.max_low_attention_share <= 1):
            raise ValueError(f"limits are {limits}")
        return self


def read_quality_head(directory: Path, manifest: manifest_pb2.Manifest) -> QualityHead | None:
    """Read the quality head of a bundle, None without; no field of the manifest tells, so older servers load it too."""
    if not any(file.name == QUALITY for file in manifest.files):
        return None
    read = read_document(directory, QUALITY, MAX_QUALITY_BYTES, _Document, what="a quality head")
    return QualityHead(features=read.features, intercept=read.intercept, limits=read.limits)
