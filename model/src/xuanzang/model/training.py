"""Training: teacher forcing, Adam, averaged weights, exact resume."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from pydantic import BaseModel, ConfigDict, Field
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel

from xuanzang.model.checkpoint import load_weights, recover, replacing, save_checkpoint, save_weights
from xuanzang.model.config import PRESETS, ConfigError, Norm, Positions, TransformerConfig
from xuanzang.model.data import METADATA_FILE, TARGET_TOKENIZER_FILE, Batch, PreparedMetadata, PreparedSplit, epoch_batches
from xuanzang.model.loss import label_smoothed_cross_entropy
from xuanzang.model.progress import TrainingLog
from xuanzang.model.schedule import Schedule, learning_rate
from xuanzang.model.tokenizer import PAD_ID, Tokenizer
from xuanzang.model.transformer import Transformer
from xuanzang.model.validation import greedy_scores, validation_loss

logger = logging.getLogger(__name__)


class TrainingSettings(BaseModel):
    """Train a Transformer on a folder that `prepare` wrote. Run it again to go on where it stopped."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, extra="forbid")

    data: Path
    """Folder that `prepare` wrote."""
    output: Path
    """Run folder: `best` is the checkpoint to export, `last` what an interrupted run resumes from, `tensorboard` the log."""
    preset: str = "small"
    """Shape by name: tiny, small, base or big."""
    encoder_layers: int | None = None
    """Encoder blocks, if not the preset's; a deep encoder costs little at decoding time."""
    decoder_layers: int | None = None
    """Decoder blocks, if not the preset's."""
    dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout, if not the preset's."""
    norm: Norm = "pre"
    """"pre" trains more easily; "post" is the paper's."""
    positions: Positions = "sinusoidal"
    """Positional encoding: sinusoidal or learned."""
    init_from: Path | None = None
    """Checkpoint whose weights to start from (fine-tuning); shapes and tokenisers must be equal."""
    max_steps: int = Field(default=20000, ge=1)
    """Optimiser steps of the run."""
    batch_tokens: int = Field(default=4096, ge=64)
    """Most tokens per batch on the longer side, padding counted, for each process."""
    accumulate: int = Field(default=1, ge=1)
    """Batches whose gradients are summed into one optimiser step."""
    schedule: Schedule = "inverse_sqrt"
    """Learning rate over the steps: the paper's, inverse_sqrt with its own peak, or linear down to 0 at max_steps."""
    learning_rate: float = Field(default=1e-3, gt=0)
    """Peak learning rate of inverse_sqrt and linear."""
    warmup_steps: int = Field(default=1000, ge=1)
    """Steps of linear rise."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """Mass given to all pieces alike, 0.1 in the paper."""
    clip_norm: float = Field(default=1.0, gt=0)
    """Gradients are scaled down to this norm."""
    average_decay: float = Field(default=0.999, ge=0, lt=1)
    """Decay of the moving average of the weights, which is what is validated and saved as `best`."""
    bf16: bool = True
    """Compute in bfloat16 where it is safe; weights stay float32."""
    validate_every: int = Field(default=1000, ge=1)
    """Steps between validations."""
    validate_sentences: int = Field(default=200, ge=1)
    """Validation pairs that are translated (greedily) for BLEU and chrF; the loss is of all."""
    save_every: int = Field(default=500, ge=1)
    """Steps between saves of `last`."""
    patience: int = Field(default=0, ge=0)
    """Stop after this many validations without a better loss; 0 never."""
    seed: int = 0
    """Of initial weights, order and dropout."""
    device: str = "auto"
    """"cpu", "cuda" or "auto"."""


class Trainer:
    """One process of a training run; with torchrun there are several."""

    def __init__(self, settings: TrainingSettings) -> None:
        self.settings = settings
        self.rank, self.world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        self.device = _device(settings.device, self.rank)
        self.metadata = PreparedMetadata.model_validate_json((settings.data / METADATA_FILE).read_text())
        self.train_split, self.valid_split = (PreparedSplit(settings.data, split) for split in ("train", "valid"))
        torch.manual_seed(settings.seed)
        self.model = Transformer(model_config(settings, self.metadata)).to(self.device)
        if settings.init_from:
            load_weights(self.model, settings.init_from / "model.safetensors")
        self.average = {name: parameter.detach().clone() for name, parameter in self.model.named_parameters()}
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
        self.step = self.epoch = self.position = self.stale_validations = 0
        self.best_loss = float("inf")
        self.parallel: nn.Module = DistributedDataParallel(self.model) if self.world_size > 1 else self.model

    def run(self) -> None:
        """Train until `max_steps` or out of patience, resuming what `last` holds."""
        self.resume()
        with TrainingLog(self.settings.output, self.settings.max_steps, self.step, enabled=self.rank == 0) as log:
            for batches in self._steps():
                started = time.perf_counter()
                loss, tokens, rate = self._update(batches)
                log.step(self.step, loss, tokens, rate, time.perf_counter() - started)
                if self.step % self.settings.validate_every == 0 or self.step == self.settings.max_steps:
                    self._validate(log)
                if self.step % self.settings.save_every == 0 or self.step == self.settings.max_steps:
                    self.save()
                if self.settings.patience and self.stale_validations >= self.settings.patience:
                    logger.info("no better validation loss in %d validations, stopping", self.stale_validations)
                    break

    def save(self) -> None:
        """Write everything that an exact resume needs."""
        if self.rank == 0:
            with replacing(self.settings.output / "last") as scratch:
                save_weights(scratch / "model.safetensors", dict(self.model.named_parameters()))
                save_weights(scratch / "average.safetensors", self.average)
                save_weights(scratch / "optimizer.safetensors", self._moments())
                (scratch / "state.json").write_text(json.dumps(self._state(), indent=2) + "\n")

    def resume(self) -> None:
        """Take up where `last` stopped; does nothing for a new run."""
        last = self.settings.output / "last"
        recover(last)
        if not (last / "state.json").exists():
            return
        load_weights(self.model, last / "model.safetensors")
        average = load_file(last / "average.safetensors", device=str(self.device))
        self.average = {name: average[name] for name in self.average}
        self._restore_moments(load_file(last / "optimizer.safetensors", device=str(self.device)))
        for name, value in json.loads((last / "state.json").read_text()).items():
            setattr(self, name, value)
        logger.info("resuming at step %d", self.step)

    def _state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("step", "epoch", "position", "stale_validations", "best_loss")}

    def _steps(self) -> Iterator[list[Batch]]:
        """Yield the batches of each optimiser step, from where the run stands."""
        count = self.settings.accumulate
        while self.step < self.settings.max_steps:
            order = epoch_batches(
                self.train_split, self.metadata.weights, self.settings.batch_tokens, self.settings.seed, self.epoch
            )
            stride = self.world_size * count
            while self.position + stride <= len(order) and self.step < self.settings.max_steps:
                mine = order[self.position + self.rank : self.position + stride : self.world_size]
                self.position += stride
                self.step += 1
                yield [self.train_split.batch(indices).to(self.device) for indices in mine]
            if self.position + stride > len(order):
                self.epoch, self.position = self.epoch + 1, 0

    def _update(self, batches: list[Batch]) -> tuple[float, int, float]:
        """Make one optimiser step; returns loss per token, tokens and learning rate."""
        settings = self.settings
        # Dropout from the step's own seed: a resumed run draws the same masks without saved generator states.
        torch.manual_seed((settings.seed * 1_000_003 + self.step) * 1024 + self.rank)
        tokens = self._sum(sum(int((batch.target_output_ids != PAD_ID).sum()) for batch in batches))
        total = 0.0
        for batch in batches:
            loss = self._loss(batch)
            # Gradients are averaged over processes, so each scales by their number to make it a mean over all tokens.
            (loss * self.world_size / tokens).backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip_norm)
        rate = learning_rate(
            self.step,
            settings.schedule,
            d_model=self.model.config.d_model,
            warmup_steps=settings.warmup_steps,
            peak=settings.learning_rate,
            max_steps=settings.max_steps,
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._update_average()
        return self._sum(total) / tokens, int(tokens), rate

    def _loss(self, batch: Batch) -> Tensor:
        autocast = torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.bf16)
        # On CPU torch's plain attention is 15 % faster to train than its fused kernel.
        with autocast, sdpa_kernel(SDPBackend.MATH) if self.device.type == "cpu" else nullcontext():
            logits = self.parallel(batch.source_ids, batch.source_mask, batch.target_input_ids)
        return label_smoothed_cross_entropy(logits, batch.target_output_ids, PAD_ID, self.settings.label_smoothing)

    def _sum(self, value: float) -> float:
        if self.world_size == 1:
            return value
        tensor = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return float(tensor.item())

    @torch.no_grad()
    def _update_average(self) -> None:
        # A short memory at first, or the average would remember the random start for a thousand steps.
        decay = min(self.settings.average_decay, self.step / (self.step + 10))
        current = [parameter.detach() for parameter in self.model.parameters()]
        torch._foreach_lerp_(list(self.average.values()), current, 1 - decay)

    def _validate(self, log: TrainingLog) -> None:
        if self.rank == 0:
            trained = {name: parameter.detach().clone() for name, parameter in self.model.named_parameters()}
            self._load(self.average)
            self.model.eval()
            loss = validation_loss(self.model, self.valid_split, self.settings.batch_tokens, self.device)
            log.validation(self.step, loss, self._sample_scores())
            if loss < self.best_loss:
                self._save_best(loss)
            self.stale_validations = 0 if loss < self.best_loss else self.stale_validations + 1
            self.best_loss = min(loss, self.best_loss)
            self._load(trained)
            self.model.train()
        if self.world_size > 1:
            # All processes must agree on when to stop.
            state = [self.stale_validations, self.best_loss]
            dist.broadcast_object_list(state)
            self.stale_validations, self.best_loss = state

    def _sample_scores(self) -> tuple[float, float]:
        count = min(self.settings.validate_sentences, len(self.valid_split))
        tokenizer = Tokenizer(self.settings.data / TARGET_TOKENIZER_FILE)
        batches = [self.valid_split.batch([i]) for i in range(count)]
        references = [tokenizer.decode(batch.target_output_ids[0].tolist()) for batch in batches]
        sources = [batch.source_ids[0].tolist() for batch in batches]
        scores = greedy_scores(self.model, sources, references, tokenizer, self.metadata.target_language)
        return scores.bleu, scores.chrf

    def _save_best(self, loss: float) -> None:
        facts = {
            "step": self.step,
            "epoch": self.epoch,
            "validation_loss": loss,
            "settings": self.settings.model_dump(mode="json", exclude={"data", "output", "init_from", "device"}),
        }
        save_checkpoint(
            self.settings.output / "best", self.average, self.model.config, self.settings.data, training=facts
        )

    @torch.no_grad()
    def _load(self, weights: dict[str, Tensor]) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.copy_(weights[name])

    def _moments(self) -> dict[str, Tensor]:
        moments = {}
        for name, parameter in self.model.named_parameters():
            for key, tensor in self.optimizer.state[parameter].items():
                moments[f"{name}.{key}"] = tensor
        return moments

    def _restore_moments(self, moments: dict[str, Tensor]) -> None:
        for name, parameter in self.model.named_parameters():
            self.optimizer.state[parameter] = {
                key: moments[f"{name}.{key}"] for key in ("step", "exp_avg", "exp_avg_sq")
            }


def model_config(settings: TrainingSettings, metadata: PreparedMetadata) -> TransformerConfig:
    """Return the shape that settings and data ask for.

    Raises:
        ConfigError: Unknown preset, or sizes that do not fit.
    """
    if settings.preset not in PRESETS:
        raise ConfigError(f"preset is {settings.preset!r}, must be one of {', '.join(PRESETS)}")
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


def _device(name: str, rank: int) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name, rank % torch.cuda.device_count()) if name == "cuda" else torch.device(name)
