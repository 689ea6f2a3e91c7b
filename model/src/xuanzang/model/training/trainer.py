"""The training loop: teacher forcing, averaged weights, validation, exact resume."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from xuanzang.model.checkpoint import save_checkpoint, start_from
from xuanzang.model.data.dataset import Batch, PreparedSplit, epoch_batches
from xuanzang.model.data.metadata import PreparedMetadata, read_metadata
from xuanzang.model.network.config import ConfigError
from xuanzang.model.network.transformer import Transformer
from xuanzang.model.stored_checkpoint import origin_of
from xuanzang.model.threads import fastest_threads, usable_threads
from xuanzang.model.training.loss import Objective
from xuanzang.model.training.machine import LENGTH_MULTIPLE, Processes, prepare_gpu
from xuanzang.model.training.optimizers import Optimizers, WeightAverage
from xuanzang.model.training.progress import LOG_STEPS, TrainingLog, Update
from xuanzang.model.training.settings import TrainingSettings, model_config
from xuanzang.model.training.state import (
    RunPosition,
    SavedRun,
    TrainingState,
    changed_settings,
    lasting_settings,
    read_saved_run,
)
from xuanzang.model.training.validator import Validator


def step_batches(
    split: PreparedSplit,
    metadata: PreparedMetadata,
    settings: TrainingSettings,
    processes: Processes,
    progress: RunPosition,
) -> Iterator[list[Batch]]:
    """Yield this process's batches of each optimiser step, from the position of the run until its last step.

    Args:
        progress: Position of the run, updated at every step.

    Raises:
        ConfigError: An epoch has too few batches for one step.
    """
    stride = processes.count * settings.accumulate
    while progress.step < settings.step_limit:
        order = epoch_batches(split, metadata.weights, settings.batch_tokens, settings.seed, progress.epoch)
        if len(order) < stride:
            raise ConfigError(f"an epoch has {len(order)} batches and a step takes {stride}: lower batch_tokens")
        while progress.position + stride <= len(order) and progress.step < settings.step_limit:
            mine = order[progress.position + processes.rank : progress.position + stride : processes.count]
            progress.position += stride
            progress.step += 1
            yield [split.batch(indices) for indices in mine]
        if progress.position + stride > len(order):
            # A remainder too small for a step is left out; the next epoch's shuffle leaves out others.
            progress.epoch, progress.position = progress.epoch + 1, 0


logger = logging.getLogger(__name__)

_TRIAL_TOKENS = 512
_VALIDATION_SECONDS = 600.0
"""Time between validations of a run that ends by the clock."""


class DivergedError(ArithmeticError):
    """The loss or a weight is infinite or not a number; the message names the step."""


class Trainer:
    """One process of a training run; with torchrun there are several."""

    def __init__(self, settings: TrainingSettings) -> None:
        """Read the data and build the model.

        Raises:
            CorpusError: The data are missing.
            CheckpointError: The checkpoint to start from does not fit.
            ConfigError: Settings and data do not fit.
        """
        self.settings = settings
        self.processes = Processes(settings.device)
        self.metadata = read_metadata(settings.data)
        on_gpu = self.processes.device.type == "cuda"
        if on_gpu:
            prepare_gpu(self.processes.device)
        self.train_split = PreparedSplit(settings.data, "train", multiple=LENGTH_MULTIPLE if on_gpu else 1)
        torch.manual_seed(settings.seed)
        self.model = Transformer(model_config(settings, self.metadata)).to(self.processes.device)
        self.validator = self._new_validator()
        self._check_lengths()
        if settings.init_from:
            start_from(self.model, settings.init_from, settings.data)
        self.state = self._new_state()
        self._parallel = DistributedDataParallel(self.model) if self.processes.count > 1 else None
        self._objective = Objective(
            self._parallel or self.model,
            label_smoothing=settings.label_smoothing,
            bf16=settings.bf16,
            compiled=settings.compile,
        )
        if settings.compile:
            self._compile_blocks()

    def _new_validator(self) -> Validator:
        return Validator(
            self.settings.data,
            self.metadata,
            batch_tokens=self.settings.batch_tokens,
            sentences=self.settings.validate_sentences,
            bf16=self.settings.bf16,
        )

    def _new_state(self) -> TrainingState:
        settings = self.settings
        return TrainingState(
            model=self.model,
            average=WeightAverage(self.model, settings.average_decay),
            optimizers=Optimizers(
                self.model, settings.optimizer, adam_factor=settings.adam_factor, weight_decay=settings.weight_decay
            ),
            progress=RunPosition(),
        )

    @property
    def progress(self) -> RunPosition:
        """Position of the run."""
        return self.state.progress

    def run(self, stop: threading.Event | None = None) -> None:
        """Train until `max_steps` or `max_minutes` or out of patience, resuming what `last` holds.

        Args:
            stop: Event that, once set, makes the run save and return after the step in progress.

        Raises:
            CheckpointError: `last` is damaged or of another run.
            ConfigError: An epoch has too few batches for one step.
            DivergedError: The loss or a weight is infinite or not a number. Saved states are kept.
        """
        self.resume()
        if self._out_of_patience() or self._out_of_time():
            return
        first, settings = self.processes.is_first, self.settings
        max_steps = None if settings.max_minutes else settings.max_steps
        with TrainingLog(settings.output, max_steps, self.progress.step, enabled=first) as log:
            started = perf_counter()
            for batches in step_batches(self.train_split, self.metadata, settings, self.processes, self.progress):
                update = self.update(batches)
                log.step(self.progress.step, update)
                validating = self._count_time(perf_counter() - started)
                if self._is_due(LOG_STEPS):
                    self._check(update)
                if validating:
                    self._validate(log)
                stopping = self._out_of_patience() or self._out_of_time() or self._interrupted(stop)
                if stopping or self._is_due(settings.save_every):
                    self.save()
                if stopping:
                    break
                started = perf_counter()

    def update(self, batches: Sequence[Batch]) -> Update:
        """Make one optimiser step.

        Args:
            batches: This process's batches of the step.
        """
        # Dropout from the step's own seed: a resumed run draws the same masks without saved generator states.
        torch.manual_seed((self.settings.seed * 1_000_003 + self.progress.step) * 1024 + self.processes.rank)
        tokens = self.processes.sum(sum(batch.target_tokens for batch in batches))
        total = torch.zeros((), device=self.processes.device)
        for i, batch in enumerate(batches):
            loss = self._loss(batch.to(self.processes.device), is_last=i == len(batches) - 1)
            # Gradients are averaged over processes, so each scales by their number to make it a mean over all tokens.
            (loss * (self.processes.count / tokens)).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        self.processes.sum_tensor(total)
        self.progress.target_tokens += int(tokens)
        return Update(total / tokens, int(tokens), self._apply_gradients())

    def save(self) -> None:
        """Write everything that an exact resume needs.

        Raises:
            DivergedError: A weight is infinite or not a number; saved states are kept.
        """
        self._require_finite_state()
        if self.processes.is_first:
            run = SavedRun(
                data_sha256=self.metadata.data_sha256,
                settings=lasting_settings(self.settings),
                threads=torch.get_num_threads(),
            )
            self.state.save(self._last, run)
        # No process ends before it is written: torchrun ends all when one ends with a status, as interrupted ones do.
        self.processes.sum(0.0)

    def resume(self) -> None:
        """Restore the state in `last`; does nothing for a new run.

        Raises:
            CheckpointError: The state is damaged, or of another shape or other data, or settings differ that were not
                given.
        """
        run = read_saved_run(self._last)
        if run is None:
            return
        changes = changed_settings(self.settings, run, self.metadata.data_sha256)
        self.state.restore(self._last)
        logger.info("resuming after step %d%s", self.progress.step, f" with {changes}" if changes else "")

    def set_threads(self, number: int = 0) -> None:
        """Set the number of CPU threads, and log a number that was not given.

        Args:
            number: Threads of each process; 0 takes those of the run that is resumed, as a resume is exact only with
                the same, and measures in a new run. torchrun's processes and OMP_NUM_THREADS are not changed.
        """
        usable = usable_threads()
        if number:
            torch.set_num_threads(number)
        elif self.processes.count == 1 and self.processes.device.type == "cpu" and usable > 1:
            reason = self._choose_threads(usable)
            threads = torch.get_num_threads()
            logger.info("training with %d of %d CPU threads: %s (--threads sets another)", threads, usable, reason)

    def _choose_threads(self, usable: int) -> str:
        """Set the number of threads of the run that is resumed, or else the fastest, and return the reason."""
        run = read_saved_run(self._last)
        if run and run.threads and run.threads <= usable:
            torch.set_num_threads(run.threads)
            return "as this run began"
        return str(fastest_threads(self._try_step, usable))

    @property
    def _last(self) -> Path:
        return self.settings.output / "last"

    def _try_step(self) -> None:
        """Compute gradients of a small batch and drop them, which changes nothing."""
        # As many tokens as a small batch has: on a busy machine a step of all threads may take a hundred times longer.
        lengths = np.cumsum(self.train_split.lengths[:_TRIAL_TOKENS].max(axis=1))
        pairs = max(1, int(np.searchsorted(lengths, min(_TRIAL_TOKENS, self.settings.batch_tokens))))
        self._loss(self.train_split.batch(range(pairs)), is_last=True).backward()  # type: ignore[no-untyped-call]
        self.model.zero_grad(set_to_none=True)

    def _compile_blocks(self) -> None:
        """Compile one encoder block and one decoder block, whose code the others share.

        The whole model as one graph takes minutes, each time that a batch differs in a way not met before.
        """
        for block in (*self.model.encoder_layers, *self.model.decoder_layers):
            # Lengths differ from batch to batch: without dynamic shapes each would be compiled anew.
            block.compile(dynamic=True)

    def _check_lengths(self) -> None:
        longest = max(int(split.lengths.max()) for split in (self.train_split, self.validator.split))
        if longest > (limit := self.model.config.max_positions):
            raise ConfigError(f"{self.settings.data} has sentences of {longest} tokens, the model takes {limit}")

    def _count_time(self, seconds: float) -> bool:
        """Count the time of a step, the same in all processes, and return whether a validation is due."""
        progress, settings = self.progress, self.settings
        before = progress.seconds
        progress.seconds += self.processes.sum(seconds) / self.processes.count
        if not settings.max_minutes:
            return self._is_due(settings.validate_every)
        return self._out_of_time() or progress.seconds // _VALIDATION_SECONDS > before // _VALIDATION_SECONDS

    def _out_of_time(self) -> bool:
        return self.settings.time_share(self.progress.seconds) >= 1

    def _is_due(self, every: int) -> bool:
        return self.progress.step % every == 0 or self.progress.step == self.settings.step_limit

    def _out_of_patience(self) -> bool:
        patience, stale = self.settings.patience, self.progress.stale_validations
        if is_out := 0 < patience <= stale:
            logger.info("no better validation loss in %d validations, stopping", stale)
        return is_out

    def _interrupted(self, stop: threading.Event | None) -> bool:
        """Return whether any process is to stop; all get the same answer."""
        return self.processes.sum(float(stop is not None and stop.is_set())) > 0

    def _check(self, update: Update) -> None:
        """Raise DivergedError if the loss is infinite or not a number, as it stays once a weight is."""
        if not math.isfinite(loss := update.loss.item()):
            raise DivergedError(f"the loss is {loss} at step {self.progress.step}; lower the learning rate")

    def _require_finite_state(self) -> None:
        """Raise DivergedError if the state cannot be trained further, in every process, as all have the same."""
        if not self.state.is_finite():
            raise DivergedError(
                f"the weights are infinite or no numbers after step {self.progress.step}; what was saved before stays: "
                "lower the learning rate"
            )

    def _apply_gradients(self) -> float:
        settings = self.settings
        progress = self.progress
        rate = settings.learning_rate_at(progress.step, self.model.config.d_model, progress.seconds)
        nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip_norm)
        self.state.optimizers.step(rate)
        self.state.average.update(self.progress.step)
        return rate

    def _loss(self, batch: Batch, *, is_last: bool) -> Tensor:
        # Gradients are exchanged once per step.
        with self._parallel.no_sync() if self._parallel and not is_last else nullcontext():
            loss: Tensor = self._objective(batch)
        return loss

    def _validate(self, log: TrainingLog) -> None:
        self._require_finite_state()
        progress = self.progress
        if self.processes.is_first:
            # Compiled code is for training; a few batches are not worth compiling it once more.
            with self.state.average.in_use(), torch.compiler.set_stance("force_eager"):
                validation = self.validator.validate(self.model, self.processes.device)
            log.validation(progress.step, progress.target_tokens, validation)
            if validation.loss < progress.best_loss:
                self._save_best(validation.loss)
            progress.stale_validations = 0 if validation.loss < progress.best_loss else progress.stale_validations + 1
            progress.best_loss = min(validation.loss, progress.best_loss)
        if self.processes.count > 1:
            # All processes must agree on when to stop.
            agreed = [progress.stale_validations, progress.best_loss]
            dist.broadcast_object_list(agreed)
            progress.stale_validations, progress.best_loss = int(agreed[0]), agreed[1]

    def _save_best(self, loss: float) -> None:
        facts: dict[str, Any] = {
            "step": self.progress.step,
            "epoch": self.progress.epoch,
            "validation_loss": loss,
            "settings": self.settings.model_dump(mode="json", exclude={"data", "output", "init_from", "device"}),
        }
        if self.settings.init_from:
            facts["parent"] = origin_of(self.settings.init_from)
        weights, config = self.state.average.weights, self.model.config
        save_checkpoint(self.settings.output / "best", weights, config, self.settings.data, training=facts)
