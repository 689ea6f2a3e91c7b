"""What a run measures of its model now and then."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

from xuanzang.model.data import TARGET_TOKENIZER_FILE, PreparedMetadata, PreparedSplit
from xuanzang.model.tokenizer import Tokenizer
from xuanzang.model.transformer import Transformer
from xuanzang.model.validation import Scores, score_translations, translate_ids, validation_loss


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
