"""Settings of a training run, and its learning rates."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from xuanzang.model.data.metadata import PreparedMetadata
from xuanzang.model.network.config import PRESETS, Norm, Positions, TransformerConfig
from xuanzang.model.stored_checkpoint import CheckpointError, load_config
from xuanzang.model.training.optimizers import OptimizerName

Schedule = Literal["paper", "inverse_sqrt", "linear", "constant"]

WARMUP_SHARE = 0.1
"""Maximum share of a timed run's time for its warm-up."""
COOLDOWN_SHARE = 0.3
"""Of that time, the last part, over which the rate falls to 0."""


def learning_rate(
    step: int,
    schedule: Schedule,
    *,
    d_model: int,
    warmup_steps: int,
    peak: float,
    max_steps: int,
    cooldown_steps: int = 0,
) -> float:
    """Return the learning rate of a step.

    Args:
        step: Number of the optimiser step, from 1.
        schedule: "paper": d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), section 5.3, equation 3, without `peak`.
            "inverse_sqrt": the same shape with its peak set freely. "linear": warm-up, then straight to 0 at
            `max_steps`. "constant": warm-up, then the peak, then straight to 0 over the last `cooldown_steps`; the run
            can be prolonged from any step before the cooldown (arXiv 2405.18392).
        warmup_steps: Steps of linear rise, at least 1.
        peak: Rate at the end of the warm-up.
        max_steps: Length of the run.
        cooldown_steps: Steps of linear fall at the end of "constant".
    """
    if schedule == "paper":
        return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))
    if step <= warmup_steps:
        return peak * step / warmup_steps
    if schedule == "inverse_sqrt":
        return float(peak * (warmup_steps / step) ** 0.5)
    falling = cooldown_steps if schedule == "constant" else max_steps - warmup_steps
    return peak * min(1.0, max(0, max_steps - step) / max(1, falling))


def timed_learning_rate(step: int, time_share: float, *, warmup_steps: int, peak: float) -> float:
    """Return the learning rate of a step of a run that ends by the clock: warm-up, the peak, then straight to 0.

    Args:
        step: Number of the optimiser step, from 1.
        time_share: Share of the time that is used, from 0.
        warmup_steps: Steps of linear rise, which is cut to a tenth of the time.
        peak: Rate at the end of the warm-up.
    """
    risen = max(step / warmup_steps, time_share / WARMUP_SHARE)
    return peak * max(0.0, min(1.0, risen, (1 - time_share) / COOLDOWN_SHARE))


_SHAPE = {
    "preset": ("d_model", "num_heads", "d_ff", "num_encoder_layers", "num_decoder_layers"),
    "encoder_layers": ("num_encoder_layers",),
    "decoder_layers": ("num_decoder_layers",),
    "norm": ("norm",),
    "positions": ("positions",),
}
"""Requested shapes, by the settings that request them."""

Preset = Literal["tiny", "small", "base", "big"]


class TrainingSettings(BaseModel):
    """Train a Transformer on a folder that `prepare` wrote. Run it again to go on where it stopped."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, extra="forbid")

    data: Path
    """Folder that `prepare` wrote."""
    output: Path
    """Run folder: `best` is the checkpoint to export, `last` what a stopped run resumes from, `tensorboard` the log."""
    preset: Preset = "small"
    """Shape of the model."""
    encoder_layers: int | None = Field(default=None, ge=1)
    """Encoder blocks, if not the preset's; a deep encoder costs little at decoding time."""
    decoder_layers: int | None = Field(default=None, ge=1)
    """Decoder blocks, if not the preset's."""
    dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout, if not the preset's."""
    norm: Norm = "pre"
    """"pre" trains more easily; "post" is the paper's."""
    positions: Positions = "sinusoidal"
    """Positional encoding: sinusoidal or learned."""
    init_from: Path | None = None
    """Checkpoint whose weights to start from (fine-tuning). The shape is that of the checkpoint; tokenisers must be
    equal."""
    max_steps: int = Field(default=20000, ge=1)
    """Optimiser steps of the run, unless it ends by max_minutes."""
    max_minutes: float = Field(default=0, ge=0)
    """Minutes of training, all sittings together, validations and saves not counted; 0 trains for max_steps. The
    learning rate and the validations then go by the clock: warm-up takes a tenth of the time at most, the rate falls to
    0 over the last 30%, and there is a validation every ten minutes and at the end."""
    batch_tokens: int = Field(default=4096, ge=64)
    """Maximum tokens per batch on the longer side, padding counted, for each process."""
    accumulate: int = Field(default=1, ge=1)
    """Batches whose gradients are summed into one optimiser step."""
    optimizer: OptimizerName = "adam"
    """Adam for all parameters, or Muon for the matrices of the blocks and Adam for embeddings, norms and biases."""
    schedule: Schedule = "inverse_sqrt"
    """Learning rate over the steps: the paper's, inverse_sqrt with its own peak, linear down to 0 at max_steps, or
    constant down to 0 over cooldown_steps, for runs whose length is decided on the way."""
    learning_rate: float = Field(default=1e-3, gt=0)
    """Peak learning rate of every schedule but the paper's."""
    adam_factor: float = Field(default=0.5, gt=0)
    """Learning rate of Adam, as a multiple of Muon's."""
    weight_decay: float = Field(default=0.1, ge=0)
    """Share of Muon's matrices that is subtracted at each step, times the learning rate."""
    warmup_steps: int = Field(default=1000, ge=1)
    """Steps of linear rise."""
    cooldown_steps: int = Field(default=0, ge=0)
    """Last steps of the constant schedule, over which the rate falls to 0."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """Probability given to all pieces alike, 0.1 in the paper."""
    clip_norm: float = Field(default=1.0, gt=0)
    """Gradients are scaled down to this norm."""
    average_decay: float = Field(default=0.999, ge=0, lt=1)
    """Decay of the moving average of the weights, which are validated and saved as `best`."""
    bf16: bool = True
    """Compute in bfloat16 where it is safe; weights stay float32."""
    compile: bool = False
    """Compile the model: the first steps take minutes, the others less time. Worth it on a GPU."""
    validate_every: int = Field(default=1000, ge=1)
    """Steps between validations."""
    validate_sentences: int = Field(default=200, ge=1)
    """Validation pairs that are translated (greedily) for BLEU and chrF; the loss is of all."""
    save_every: int = Field(default=500, ge=1)
    """Steps between saves of `last`."""
    patience: int = Field(default=0, ge=0)
    """Stop after this many validations without a better loss; 0 never."""
    seed: int = Field(default=0, ge=0)
    """Seed of initial weights, order and dropout."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to compute on; auto takes cuda if there is one."""

    @property
    def step_limit(self) -> float:
        """Optimiser steps of the run, infinite if the clock ends it."""
        return math.inf if self.max_minutes else self.max_steps

    def time_share(self, seconds: float) -> float:
        """Return the share of the time that is used after some seconds of training; 0 if it is not limited."""
        return seconds / (60 * self.max_minutes) if self.max_minutes else 0.0

    def learning_rate_at(self, step: int, d_model: int, seconds: float = 0.0) -> float:
        """Return the learning rate of a step, from 1, of a model of some width, after some seconds of training."""
        if self.max_minutes:
            return timed_learning_rate(
                step, self.time_share(seconds), warmup_steps=self.warmup_steps, peak=self.learning_rate
            )
        return learning_rate(
            step,
            self.schedule,
            d_model=d_model,
            warmup_steps=self.warmup_steps,
            peak=self.learning_rate,
            max_steps=self.max_steps,
            cooldown_steps=self.cooldown_steps,
        )


def model_config(settings: TrainingSettings, metadata: PreparedMetadata) -> TransformerConfig:
    """Return the shape that follows from settings and data, or from the checkpoint to start from.

    Raises:
        CheckpointError: That checkpoint cannot be read, or has another shape than is asked for.
        ConfigError: The sizes do not fit together.
    """
    asked = _asked_config(settings, metadata)
    if settings.init_from is None:
        return asked
    given = load_config(settings.init_from)
    fields = {name: _SHAPE[name] for name in sorted(_SHAPE.keys() & settings.model_fields_set)}
    if other := [name for name, of in fields.items() if any(getattr(asked, f) != getattr(given, f) for f in of)]:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in other)
        raise CheckpointError(f"{settings.init_from} has {_blocks(given)}, {_blocks(asked)} asked: leave out {flags}")
    dropout = given.dropout if settings.dropout is None else settings.dropout
    return dataclasses.replace(given, dropout=dropout)


def _blocks(config: TransformerConfig) -> str:
    return f"{config.num_encoder_layers} + {config.num_decoder_layers} blocks of width {config.d_model}"


def _asked_config(settings: TrainingSettings, metadata: PreparedMetadata) -> TransformerConfig:
    shape: dict[str, Any] = dict(PRESETS[settings.preset])
    overrides = {
        "num_encoder_layers": settings.encoder_layers,
        "num_decoder_layers": settings.decoder_layers,
        "dropout": settings.dropout,
    }
    shape |= {name: value for name, value in overrides.items() if value is not None}
    return TransformerConfig(
        source_vocab_size=metadata.source_vocab_size,
        target_vocab_size=metadata.target_vocab_size,
        share_embeddings=metadata.share_vocabulary,
        norm=settings.norm,
        positions=settings.positions,
        **shape,
    )
