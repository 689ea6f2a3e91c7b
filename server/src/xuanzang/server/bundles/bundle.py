"""A verified bundle, and its certificate: samples to reproduce, and the cost of the weights' number format."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BaseModel, Field

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import PARSED, FileState, read_document, read_limited
from xuanzang.server.bundles.manifest import CERTIFICATE
from xuanzang.server.bundles.quality_head import QUALITY, QualityHead

# A real certificate has some 10 KB.
MAX_CERTIFICATE_BYTES = 1 << 20


class Sample(BaseModel):
    """A sentence with the exporter's result for it, which the server must reproduce."""

    model_config = PARSED

    source: Annotated[str, Field(max_length=20_000, pattern=r"\S")]
    source_ids: tuple[int, ...]
    """Ids of `source`, end token included."""
    target_ids: tuple[int, ...]
    """Ids of the best hypothesis, without start and end token."""
    beam_size: Annotated[int, Field(ge=1, le=16)]
    length_penalty: Annotated[float, Field(ge=0, le=10)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """One version of a model, with all files checked against the manifest."""

    directory: Path
    manifest: manifest_pb2.Manifest
    manifest_sha256: str
    """Lower-case hex SHA-256 of manifest.json."""
    samples: tuple[Sample, ...]
    file_states: tuple[tuple[str, FileState], ...] = ()
    """Names of the listed files, and their states when their digests were compared."""
    settled_states: tuple[tuple[str, FileState], ...] = ()
    """Those of them that differ after any later change: the file had been unchanged for a moment before."""
    is_known: bool = False
    """True if an earlier load in this process has checked the contents of all files."""
    source_vocabulary: Sequence[str] = ()
    """Source pieces ordered by id; empty if the ids are the SentencePiece model's."""
    target_vocabulary: Sequence[str] = ()
    """Target pieces ordered by id; empty if the ids are the SentencePiece model's."""
    quality_head: QualityHead | None = None
    """Estimate of how far to trust translations, if the bundle has one."""
    lexicon: Mapping[str, str] = field(default_factory=dict)
    """Translations of first words, by source; none if the bundle has no lexicon."""

    def outline(self) -> Bundle:
        """Return the bundle without the content of its files, except for the manifest."""
        return replace(
            self,
            samples=(),
            settled_states=(),
            source_vocabulary=(),
            target_vocabulary=(),
            quality_head=None,
            lexicon=MappingProxyType({}),
        )

    @property
    def has_quality_head(self) -> bool:
        """True if the bundle can estimate how far to trust translations."""
        return any(file.name == QUALITY for file in self.manifest.files)

    @property
    def precision(self) -> str:
        """Number format of the weights: "float32", "float16" or "int8"."""
        return manifest_pb2.Precision.Name(self.manifest.precision).removeprefix("PRECISION_").lower()

    @property
    def has_shortlist(self) -> bool:
        """True if a sentence may be decoded with the pieces that its source suggests."""
        return self.manifest.HasField("shortlist")


class _Certificate(BaseModel):
    model_config = PARSED

    # The exporter writes 8, which take a fraction of a second. All are replayed before anything is served.
    samples: Annotated[tuple[Sample, ...], Field(max_length=64)]


def read_samples(directory: Path, dimensions: manifest_pb2.Dimensions) -> tuple[Sample, ...]:
    """Read the sentences, at least one, that the server must translate exactly as the exporter did; or BundleError."""
    what = "a certificate with samples"
    samples = read_document(directory, CERTIFICATE, MAX_CERTIFICATE_BYTES, _Certificate, what=what).samples
    if faults := [fault for sample in samples for fault in _id_faults(sample, dimensions)]:
        raise BundleError(directory, [f"{CERTIFICATE} is not {what}: {fault}" for fault in faults])
    if not samples:
        raise BundleError(directory, [f"{CERTIFICATE} has no samples to replay"])
    return samples


def _id_faults(sample: Sample, dimensions: manifest_pb2.Dimensions) -> Iterator[str]:
    for side, ids in (("source", sample.source_ids), ("target", sample.target_ids)):
        size, longest = getattr(dimensions, f"{side}_vocab_size"), getattr(dimensions, f"max_{side}_length")
        if len(ids) > longest:
            yield f"{side}_ids are {len(ids)}; the dimensions say {longest} at the most"
        if wrong := [value for value in ids if not 0 <= value < size]:
            yield f"{side}_ids have {wrong[0]!r:.100}; the vocabulary has {size}"


def certified_loss(bundle: Bundle) -> float:
    """Return the loss of chrF of the shipped graphs against float32, in points; negative if they are better.

    BundleError: the certificate states no quality, or has changed since it was verified.
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
