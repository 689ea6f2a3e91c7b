"""What a bundle's certificate says: samples to reproduce, and what the number format of the weights costs."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.bundle import Bundle, Sample
from xuanzang.server.bundles.errors import PARSED, BundleError, validation_faults
from xuanzang.server.bundles.files import read_limited
from xuanzang.server.bundles.manifest import CERTIFICATE

# A real certificate has some 10 KB.
MAX_CERTIFICATE_BYTES = 1 << 20


class _Certificate(BaseModel):
    model_config = PARSED

    # The exporter writes 8, which take a fraction of a second. All are replayed before anything is served.
    samples: Annotated[tuple[Sample, ...], Field(max_length=64)]


def read_samples(directory: Path, dimensions: manifest_pb2.Dimensions) -> tuple[Sample, ...]:
    """Read the sentences, at least one, that the server must translate exactly as the exporter did.

    Raises:
        BundleError: The certificate cannot be read, or has no samples, or some that are malformed or outside the
            dimensions.
    """
    content = read_limited(directory, CERTIFICATE, MAX_CERTIFICATE_BYTES)
    try:
        samples = _Certificate.model_validate_json(content).samples
        for sample in samples:
            _require_ids("source_ids", sample.source_ids, dimensions.source_vocab_size, dimensions.max_source_length)
            _require_ids("target_ids", sample.target_ids, dimensions.target_vocab_size, dimensions.max_target_length)
    except ValueError as error:
        fault = validation_faults(error) if isinstance(error, ValidationError) else error
        raise BundleError(directory, [f"{CERTIFICATE} is not a certificate with samples: {fault}"]) from error
    if not samples:
        raise BundleError(directory, [f"{CERTIFICATE} has no samples to replay"])
    return samples


def _require_ids(field: str, ids: tuple[int, ...], vocab_size: int, max_length: int) -> None:
    if len(ids) > max_length:
        raise ValueError(f"{field} are {len(ids)}; the dimensions say {max_length} at the most")
    if wrong := [value for value in ids if not 0 <= value < vocab_size]:
        raise ValueError(f"{field} have {wrong[0]!r:.100}; the vocabulary has {vocab_size}")


def certified_loss(bundle: Bundle) -> float:
    """Return the points of chrF by which the shipped graphs are worse than float32; negative if they are better.

    Raises:
        BundleError: The certificate states no quality, or is not any more the one that was verified.
    """
    content = read_limited(bundle.directory, CERTIFICATE, MAX_CERTIFICATE_BYTES)
    listed = {file.name: file.sha256 for file in bundle.manifest.files}
    if hashlib.sha256(content).hexdigest() != listed.get(CERTIFICATE):
        raise BundleError(bundle.directory, [f"{CERTIFICATE} was changed after the bundle was loaded"])
    try:
        certificate = json.loads(content)
        quality = certificate["quality"]
        if not quality and certificate.get("agreement"):
            raise BundleError(bundle.directory, [f"{CERTIFICATE} states no quality: it was exported without pairs"])
        # Only certificates of former exports have the quality of torch, whose tokens the float32 graphs give.
        best = "torch_float32" if "torch_float32" in quality else "onnx_float32"
        return _chrf(quality, best) - _chrf(quality, f"onnx_{bundle.precision}")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BundleError(bundle.directory, [f"{CERTIFICATE} states no quality: {error!r}"]) from error


def _chrf(quality: dict[str, Any], runtime: str) -> float:
    value = quality[runtime]["chrf"]
    if type(value) not in (int, float) or not math.isfinite(value) or not 0 <= value <= 100:
        raise ValueError(f"chrf of {runtime} is {value!r:.100}")
    return float(value)
