"""Settings of promotion: which versions go live, and within what bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, DirectoryPath, Field

Promotion = Literal["direct", "gate", "manual"]
"""How a version goes live: as soon as it is loaded, if it passes the gate, or by command."""


def _in_a_folder(path: Path) -> Path:
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError("must be a file, which need not exist, in a folder that does")
    return path


class PromotionSettings(BaseModel):
    """How versions of a model go live."""

    model_config = ConfigDict(frozen=True, defer_build=True, use_attribute_docstrings=True)

    promotion: Promotion = "direct"
    """How a new version goes live, so that it answers requests that name none: direct, as soon as it is loaded, if it
    is the highest; gate, once it has passed the gate; manual, by `xuanzang admin promote`, which asks the gate."""
    promotion_state: Annotated[Path, AfterValidator(_in_a_folder)] | None = None
    """File that keeps pins and live versions from one start to the next; unset: .promotion.json in the folder of the
    models, if that can be written."""
    golden_sets: DirectoryPath | None = None
    """Folder of the golden sets, MODEL.tsv with lines of source, tab and reference, by which the gate judges; a model
    without one passes no gate."""
    gate_max_chrf_loss: float = Field(default=1.0, ge=0, le=100)
    """Maximum points of chrF by which a version may be worse than the live one on its golden set."""
    gate_max_certified_loss: float = Field(default=1.0, ge=0, le=100)
    """Maximum points of chrF that the certificate of a version may state to be lost by its precision."""
    gate_min_agreement: float = Field(default=50.0, ge=0, le=100)
    """Minimum chrF of the translations of a version with the live version's as references."""
    gate_min_exact_match: float = Field(default=0.0, ge=0, le=1)
    """Minimum share of the golden set that a version translates exactly as the live version does."""
    gate_max_length_change: float = Field(default=0.15, ge=0, le=10)
    """Maximum change of the length of the translations, as a share of the live version's."""
    gate_timeout_seconds: float = Field(default=300.0, gt=0, le=3600)
    """Maximum seconds that the gate takes to translate a golden set, one sentence at a time."""
