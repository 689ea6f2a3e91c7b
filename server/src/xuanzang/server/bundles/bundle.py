"""A verified bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.files import PARSED, FileState
from xuanzang.server.bundles.quality_head import QualityHead


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
    source_vocabulary: Sequence[str] = ()
    """Source pieces ordered by id; empty if the ids are the SentencePiece model's."""
    target_vocabulary: Sequence[str] = ()
    """Target pieces ordered by id; empty if the ids are the SentencePiece model's."""
    quality_head: QualityHead | None = None
    """Estimate of how far to trust translations, if the bundle has one."""

    @property
    def precision(self) -> str:
        """Number format of the weights: "float32", "float16" or "int8"."""
        return manifest_pb2.Precision.Name(self.manifest.precision).removeprefix("PRECISION_").lower()

    @property
    def has_shortlist(self) -> bool:
        """True if a sentence may be decoded with the pieces that its source suggests."""
        return self.manifest.HasField("shortlist")
