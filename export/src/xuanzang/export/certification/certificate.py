"""The certificate of a bundle: measurements of the export."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class ParityError(Exception):
    """The graphs do not compute what the checkpoint does; no bundle is written."""


class Sample(BaseModel):
    """A sentence with the ids that the bundle must give for it."""

    source: str
    source_ids: list[int]
    target_ids: list[int]
    target: str
    beam_size: int
    length_penalty: float


class Certificate(BaseModel):
    """The contents of certificate.json."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    oracle: Literal["numpy"] = "numpy"
    """Reference of the comparison: the same network in numpy, single precision; tests compare that with torch."""
    measured_on: Literal["pairs", "texts", "sample"]
    """Sentences of the measurements: pairs with translations by humans, texts without, or the sample of the
    exporter."""
    directions: list[str]
    """Languages between which was translated, such as "zh to en"."""
    not_measured: list[str]
    """Facts that were not measured, one sentence each."""
    parity: dict[str, dict[str, float]]
    """By precision: sentences and steps compared with the oracle, maximum difference of log-probabilities, and token
    agreement: the share of sentences; of a student, whose oracle computes in the same precision, of steps."""
    quality: dict[str, dict[str, float]]
    """BLEU and chrF of the same sentences, by "onnx_float32" and, if exported, "onnx_int8" or "onnx_float16", and
    "shortlist"; empty without pairs. The oracle is in `parity`: its translations are those of onnx_float32."""
    quality_sentences: int
    """Sentences translated for `quality`."""
    shipped_quality: dict[str, dict[str, float]]
    """By name of the pairs: sentences, BLEU and chrF of the float32 graphs and the shipped, and of each the change with
    its 90% interval (`…_change`, `…_change_low`, `…_change_high`); empty for float32."""
    agreement: dict[str, float]
    """Translations by the shipped graphs compared with the float32 graphs': sentences, chrF of one against the
    other, and share that is the same, `equal`; empty for float32."""
    signatures: list[str]
    """sacreBLEU's signatures of BLEU and chrF, or of chrF alone."""
    step_milliseconds: dict[str, dict[str, float]]
    """By precision, then position: median time of a decoder step of 8 sentences and 4 hypotheses."""
    samples: list[Sample]
    """Sentences that the server replays before it serves the bundle."""
    machine: dict[str, str]
    """Processor and versions of the measurement."""
