"""What a run measures of its model now and then."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

from xuanzang.model.data.dataset import TARGET_TOKENIZER_FILE, PreparedMetadata, PreparedSplit, sequential_batches
from xuanzang.model.evaluation import Scores, score_translations
from xuanzang.model.tokenizer import PAD_ID, Tokenizer
from xuanzang.model.training.loss import label_smoothed_cross_entropy
from xuanzang.model.transformer import Transformer
from xuanzang.model.translation import translate_ids


class Validation(NamedTuple):
    """One validation."""

    loss: float
    """Cross-entropy of all held-out pairs, nats per target token."""
    scores: Scores
    """Of greedy translations of the first of them."""


class Validator:
    """The held-out pairs of a folder that `prepare` wrote."""

    def __init__(
        self, folder: Path, metadata: PreparedMetadata, *, batch_tokens: int, sentences: int, bf16: bool
    ) -> None:
        self.split = PreparedSplit(folder, "valid")
        self._language = metadata.target_language
        self._batch_tokens, self._bf16 = batch_tokens, bf16
        tokenizer = Tokenizer(folder / TARGET_TOKENIZER_FILE)
        sample = [self.split.batch([i]) for i in range(min(sentences, len(self.split)))]
        self._sources = [batch.source_ids[0].tolist() for batch in sample]
        self._references = [tokenizer.decode(batch.target_output_ids[0].tolist()) for batch in sample]
        self._tokenizer = tokenizer

    def validate(self, model: Transformer, device: torch.device) -> Validation:
        """Measure a model, which is in evaluation mode on `device`."""
        loss = validation_loss(model, self.split, self._batch_tokens, device, bf16=self._bf16)
        found = translate_ids(model, self._sources, beam_size=1)
        translations = [self._tokenizer.decode(hypotheses[0].target_ids) for hypotheses in found]
        return Validation(loss, score_translations(translations, self._references, self._language))


@torch.inference_mode()
def validation_loss(
    model: Transformer, split: PreparedSplit, batch_tokens: int, device: torch.device, *, bf16: bool = False
) -> float:
    """Return the cross-entropy per target token of a split, nats, without label smoothing.

    Args:
        model: In evaluation mode, on `device`.
        split: Held-out pairs.
        batch_tokens: Most padded tokens per batch.
        device: Where to compute.
        bf16: Compute in bfloat16 where it is safe.
    """
    total, count = 0.0, 0
    for indices in sequential_batches(split, batch_tokens):
        batch = split.batch(indices).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            logits = model(batch.source_ids, batch.source_mask, batch.target_input_ids)
        total += label_smoothed_cross_entropy(logits, batch.target_output_ids, PAD_ID, 0.0).item()
        count += batch.target_tokens
    return total / count
