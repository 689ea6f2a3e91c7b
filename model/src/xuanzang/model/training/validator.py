"""Loss and translation quality on held-out pairs, measured during training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from xuanzang.model.data.dataset import PreparedSplit, sequential_batches
from xuanzang.model.data.metadata import TARGET_TOKENIZER_FILE, PreparedMetadata
from xuanzang.model.evaluation.scores import Scores, score_translations
from xuanzang.model.network.transformer import Transformer
from xuanzang.model.tokenizer import PAD_ID, Tokenizer
from xuanzang.model.translation import translate_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """One validation."""

    loss: float
    """Cross-entropy of all held-out pairs, nats per target token."""
    losses: dict[str, float]
    """The same for each corpus that pairs were cut from; empty for pairs of a file of their own."""
    scores: Scores
    """BLEU and chrF of greedy translations of the first pairs."""


class Validator:
    """The held-out pairs of a folder that `prepare` wrote."""

    def __init__(
        self, folder: Path, metadata: PreparedMetadata, *, batch_tokens: int, sentences: int, bf16: bool
    ) -> None:
        self.split = PreparedSplit(folder, "valid")
        self._language, self._corpora = metadata.target_language, metadata.corpora
        self._batch_tokens, self._bf16 = batch_tokens, bf16
        tokenizer = Tokenizer(folder / TARGET_TOKENIZER_FILE)
        sample = [self.split.batch([i]) for i in range(min(sentences, len(self.split)))]
        self._sources = [batch.source_ids[0].tolist() for batch in sample]
        self._references = [tokenizer.decode(batch.target_output_ids[0].tolist()) for batch in sample]
        self._tokenizer = tokenizer

    def validate(self, model: Transformer, device: torch.device) -> Validation:
        """Measure a model, which is in evaluation mode on `device`."""
        losses = pair_losses(model, self.split, self._batch_tokens, device, bf16=self._bf16)
        found = translate_ids(model, self._sources, beam_size=1)
        translations = [self._tokenizer.decode(hypotheses[0].target_ids) for hypotheses in found]
        return Validation(
            loss=float(losses.sum() / self.split.lengths[:, 1].sum()),
            losses=loss_by_corpus(losses, self.split, self._corpora),
            scores=score_translations(translations, self._references, self._language),
        )


@torch.inference_mode()
def pair_losses(
    model: Transformer, split: PreparedSplit, batch_tokens: int, device: torch.device, *, bf16: bool = False
) -> npt.NDArray[np.float64]:
    """Return the cross-entropy of each pair of a split, without label smoothing.

    Args:
        model: Model in evaluation mode, on `device`.
        batch_tokens: Upper limit of padded tokens per batch.
        bf16: Compute in bfloat16 where it is safe.

    Returns:
        Nats, summed over the tokens of each target, [pair].
    """
    batches = sequential_batches(split, batch_tokens)
    sums = []
    for indices in batches:
        batch = split.batch(indices).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            logits = model(batch.source_ids, batch.source_mask, batch.target_input_ids)
        by_token = F.cross_entropy(
            logits.flatten(0, 1).float(), batch.target_output_ids.flatten(), ignore_index=PAD_ID, reduction="none"
        )
        sums.append(by_token.view_as(batch.target_output_ids).sum(dim=1))  # [batch]
    losses = np.empty(len(split))
    losses[np.concatenate(batches)] = torch.cat(sums).double().cpu().numpy()
    return losses


def loss_by_corpus(losses: npt.NDArray[np.float64], split: PreparedSplit, corpora: Sequence[str]) -> dict[str, float]:
    """Return the cross-entropy of each corpus of a split, nats per target token.

    Args:
        losses: Nats of each pair, [pair].
    """
    if split.corpus_ids is None:
        return {}
    nats = np.bincount(split.corpus_ids, weights=losses, minlength=len(corpora))
    tokens = np.bincount(split.corpus_ids, weights=split.lengths[:, 1], minlength=len(corpora))
    return {name: float(nats[i] / tokens[i]) for i, name in enumerate(corpora) if tokens[i]}
