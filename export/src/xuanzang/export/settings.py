"""Settings of an export."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class ExportSettings(BaseModel):
    """Turn a checkpoint into a bundle that the server loads."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, extra="forbid")

    checkpoint: Path
    """Folder with model.safetensors, config.json and tokenisers, such as the `best` of a training run."""
    repository: Path
    """Folder of models; the bundle becomes <repository>/<model>/<version>."""
    model: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")
    """Name that clients ask for, such as zh-en."""
    version: int = Field(default=0, ge=0)
    """Version of the bundle; 0 takes the next free one."""
    precision: Literal["int8", "float16", "float32"] = "int8"
    """Number format of the weights: int8 for CPUs, float16 for GPUs."""
    valid: Path
    """Pairs of source<TAB>target for parity, calibration, quality and samples; never trained on."""
    source_language: str = ""
    """Language of the sources of `valid`, as the checkpoint has it; needed if that names several to the model."""
    target_language: str = ""
    """The same for its targets."""
    parity_sentences: int = Field(default=50, ge=1)
    """Sentences decoded to the end by torch and by the graphs."""
    calibration_sentences: int = Field(default=300, ge=1)
    """Pairs for the ranges of int8 activations."""
    evaluation_sentences: int = Field(default=500, ge=1)
    """Pairs translated for BLEU and chrF, in torch and in the graphs."""
    beam_size: int = Field(default=4, ge=1, le=16)
    """Default of requests to this model, and of the evaluation."""
    length_penalty: float = Field(default=1.0, ge=0, le=10)
    """Default of requests to this model, and of the evaluation."""
    loop_retry_ngram_size: int = Field(default=0, ge=0, le=16)
    """N-gram limit for a second search when a translation repeats itself endlessly; 0 for no second search."""
    max_float32_difference: float = Field(default=1e-4, gt=0)
    """Maximum difference of a log-probability between torch and the float32 graphs, nats."""
    test: dict[str, Path] = Field(default_factory=dict)
    """More pairs, by name such as tatoeba=FILE, on which the precision is compared with float32."""
    test_sentences: int = Field(default=2000, ge=1)
    """Pairs of `valid` and of each test translated to compare the precision with float32."""
    max_bleu_change: float = Field(default=0.3, gt=0)
    """Maximum loss in BLEU against the float32 graphs, on `valid` and on each test. An export is refused only if the
    loss exceeds it with 95 % confidence; a gain never counts."""
    max_chrf_change: float = Field(default=0.2, gt=0)
    """The same for chrF."""
    shortlist: Path | None = None
    """Table from `xuanzang-model shortlist`; the bundle then allows decoding with the pieces that a source suggests."""
    card: Path | None = None
    """Markdown on data, licences and limits, for the model card."""
