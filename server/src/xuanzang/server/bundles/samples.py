"""Read the samples of a bundle's certificate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from xuanzang.server.bundles.bundle import Sample
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.manifest import CERTIFICATE, read_limited

MAX_CERTIFICATE_BYTES = 16 << 20


def read_samples(directory: Path) -> tuple[Sample, ...]:
    """Read the sentences that the server must translate exactly as the exporter did.

    Args:
        directory: Folder of the bundle.

    Returns:
        At least one sample.

    Raises:
        BundleError: The certificate cannot be read, or has no samples or malformed ones.
    """
    content = read_limited(directory, CERTIFICATE, MAX_CERTIFICATE_BYTES)
    try:
        samples = json.loads(content)["samples"]
        parsed = tuple(_parse(sample) for sample in samples)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BundleError(directory, [f"{CERTIFICATE} is not a certificate with samples: {error!r}"]) from error
    if not parsed:
        raise BundleError(directory, [f"{CERTIFICATE} has no samples to replay"])
    return parsed


def _parse(sample: dict[str, Any]) -> Sample:
    source = sample["source"]
    if not isinstance(source, str) or not source.strip():
        raise ValueError(f"source is {source!r}")
    beam_size, length_penalty = int(sample["beam_size"]), float(sample["length_penalty"])
    if not (1 <= beam_size <= 16 and 0 <= length_penalty <= 10):
        raise ValueError(f"beam_size is {beam_size}, length_penalty is {length_penalty}")
    return Sample(
        source=source,
        source_ids=_ids(sample["source_ids"]),
        target_ids=_ids(sample["target_ids"]),
        beam_size=beam_size,
        length_penalty=length_penalty,
    )


def _ids(values: list[Any]) -> tuple[int, ...]:
    if not all(type(value) is int for value in values):
        raise ValueError(f"ids are {values!r}")
    return tuple(values)
