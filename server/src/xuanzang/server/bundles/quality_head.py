"""Read `quality.json`: the model that estimates from a search whether its translation is acceptable."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import read_limited

QUALITY = "quality.json"
FORMAT = 1
# A real one has some 5 KB.
MAX_QUALITY_BYTES = 1 << 18

_MAX_FEATURES = 64
# Far beyond what any fit yields; it keeps sums finite.
_MAX_MAGNITUDE = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One number that is measured of a sentence, and what it says. Weights are of the standardised value."""

    name: str
    mean: float
    deviation: float
    """Standard deviation over the pairs of the fit, above 0."""
    weight: float
    """Weight in the logit."""
    square_weight: float
    """Weight of its square in the logit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagLimits:
    """Bounds of what is usual for the pair of languages."""

    min_token_ratio: float
    """Target tokens per source token, end tokens counted, above 0."""
    max_token_ratio: float
    max_low_attention_share: float
    """Share of the source tokens that got little attention, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityHead:
    """Logistic regression over features of a search, fitted on held-out pairs."""

    features: tuple[Feature, ...]
    """At least one."""
    intercept: float
    limits: FlagLimits


def read_quality_head(directory: Path, manifest: manifest_pb2.Manifest) -> QualityHead | None:
    """Read the quality head of a bundle; the manifest has no field for it, so older servers load the bundle, too.

    Raises:
        BundleError: The file is listed and cannot be read, or is malformed.
    """
    if not any(file.name == QUALITY for file in manifest.files):
        return None
    content = read_limited(directory, QUALITY, MAX_QUALITY_BYTES)
    try:
        return _parsed(json.loads(content))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BundleError(directory, [f"{QUALITY} is not a quality head: {error!r}"]) from error


def _parsed(document: dict[str, Any]) -> QualityHead:
    if document["format"] != FORMAT:
        raise ValueError(f"format is {document['format']!r:.100}; this server reads {FORMAT}")
    features = tuple(_feature(row) for row in _rows(document["features"]))
    if len({feature.name for feature in features}) < len(features):
        raise ValueError("a feature is named twice")
    limits = document["limits"]
    ratios = _number(limits, "min_token_ratio"), _number(limits, "max_token_ratio")
    share = _number(limits, "max_low_attention_share")
    if not (0 < ratios[0] < ratios[1] and 0 <= share <= 1):
        raise ValueError(f"limits are {limits!r:.200}")
    return QualityHead(
        features=features,
        intercept=_number(document, "intercept"),
        limits=FlagLimits(min_token_ratio=ratios[0], max_token_ratio=ratios[1], max_low_attention_share=share),
    )


def _rows(rows: Any) -> Sequence[dict[str, Any]]:
    if not isinstance(rows, list) or not 1 <= len(rows) <= _MAX_FEATURES:
        raise ValueError(f"features must be a list of 1 to {_MAX_FEATURES}")
    return rows


def _feature(row: dict[str, Any]) -> Feature:
    name, deviation = row["name"], _number(row, "deviation")
    if not isinstance(name, str) or deviation <= 0:
        raise ValueError(f"name and deviation are {name!r:.100} and {deviation}")
    weights = {key: _number(row, key) for key in ("mean", "weight", "square_weight")}
    return Feature(name=name, deviation=deviation, **weights)


def _number(row: dict[str, Any], key: str) -> float:
    value = row[key]
    if type(value) not in (int, float) or not math.isfinite(value) or abs(value) > _MAX_MAGNITUDE:
        raise ValueError(f"{key} is {value!r:.100}")
    return float(value)
