"""Read the quality that a bundle's certificate states."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import read_limited
from xuanzang.server.bundles.manifest import CERTIFICATE
from xuanzang.server.bundles.samples import MAX_CERTIFICATE_BYTES


def certified_loss(bundle: Bundle) -> float:
    """Return what the number format of the weights costs, as the exporter measured it.

    Args:
        bundle: Bundle that was verified before.

    Returns:
        Points of chrF by which the shipped graphs are worse than float32; negative if they are better.

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
