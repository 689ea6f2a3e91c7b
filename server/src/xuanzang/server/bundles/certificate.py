"""What a bundle's certificate says: samples to reproduce, and what the number format of the weights costs."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.bundle import Bundle, Sample
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import read_limited
from xuanzang.server.bundles.manifest import CERTIFICATE

# A real certificate has some 10 KB.
MAX_CERTIFICATE_BYTES = 1 << 20
# The exporter writes 8, which take a fraction of a second. All are replayed before anything is served.
MAX_SAMPLES = 64

_MAX_SOURCE_CHARACTERS = 20_000


def read_samples(directory: Path, dimensions: manifest_pb2.Dimensions) -> tuple[Sample, ...]:
    """Read the sentences, at least one, that the server must translate exactly as the exporter did.

    Raises:
        BundleError: The certificate cannot be read, or has no samples, or some that are malformed or outside the
            dimensions.
    """
    content = read_limited(directory, CERTIFICATE, MAX_CERTIFICATE_BYTES)
    try:
        parsed = _parse_all(json.loads(content)["samples"], dimensions)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BundleError(directory, [f"{CERTIFICATE} is not a certificate with samples: {error!r}"]) from error
    if not parsed:
        raise BundleError(directory, [f"{CERTIFICATE} has no samples to replay"])
    return parsed


def _parse_all(samples: list[dict[str, Any]], dimensions: manifest_pb2.Dimensions) -> tuple[Sample, ...]:
    if len(samples) > MAX_SAMPLES:
        raise ValueError(f"there are {len(samples)} samples; at most {MAX_SAMPLES} are allowed")
    return tuple(_parse(sample, dimensions) for sample in samples)


def _parse(sample: dict[str, Any], dimensions: manifest_pb2.Dimensions) -> Sample:
    source, beam_size, length_penalty = sample["source"], sample["beam_size"], sample["length_penalty"]
    if not isinstance(source, str) or not source.strip() or len(source) > _MAX_SOURCE_CHARACTERS:
        raise ValueError(f"source is {source!r:.100}")
    # JSON can name halves of characters, which are no text.
    source.encode()
    if type(beam_size) is not int or not 1 <= beam_size <= 16:
        raise ValueError(f"beam_size is {beam_size!r:.100}")
    if type(length_penalty) not in (int, float) or not 0 <= length_penalty <= 10:
        raise ValueError(f"length_penalty is {length_penalty!r:.100}")
    sizes = dimensions.source_vocab_size, dimensions.max_source_length
    target_sizes = dimensions.target_vocab_size, dimensions.max_target_length
    return Sample(
        source=source,
        source_ids=_ids(sample, "source_ids", *sizes),
        target_ids=_ids(sample, "target_ids", *target_sizes),
        beam_size=beam_size,
        length_penalty=float(length_penalty),
    )


def _ids(sample: dict[str, Any], field: str, vocab_size: int, max_length: int) -> tuple[int, ...]:
    values = sample[field]
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise ValueError(f"{field} are {values!r:.100}")
    if len(values) > max_length:
        raise ValueError(f"{field} are {len(values)}; the dimensions say {max_length} at the most")
    if wrong := [value for value in values if not 0 <= value < vocab_size]:
        raise ValueError(f"{field} have {wrong[0]!r:.100}; the vocabulary has {vocab_size}")
    return tuple(values)


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
