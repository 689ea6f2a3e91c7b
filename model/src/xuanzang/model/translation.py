"""Translation of any number of sentences, by beam search in torch."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch

from xuanzang.model.beams import Hypothesis, translate_by_length
from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.data.dataset import pad_sentences
from xuanzang.model.network.transformer import Transformer
from xuanzang.model.search import beam_search
from xuanzang.model.threads import fastest_threads, usable_threads

logger = logging.getLogger(__name__)

_LARGE = 100_000_000
"""Minimum parameters of a model whose trial takes seconds."""


class SourceLengthError(ValueError):
    """A sentence with more tokens than the model has positions."""


def translate_ids(
    model: Transformer,
    sentences: Sequence[Sequence[int]],
    *,
    beam_size: int,
    num_hypotheses: int = 1,
    length_penalty: float = 1.0,
    batch_sentences: int = 32,
    prefix_ids: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """Translate tokenised sentences of any number, batched by length; `beam_search` explains the other options.

    Args:
        sentences: Source ids, eos last.
        prefix_ids: Beginning of every hypothesis.

    Returns:
        Hypotheses of each sentence in the order given, best first.

    Raises:
        SourceLengthError: A sentence has more tokens than the model takes.
    """
    _check_lengths(sentences, model.config.max_positions)
    device, max_positions = model.output_projection.weight.device, model.config.max_positions

    def translate(batch: Sequence[Sequence[int]]) -> list[list[Hypothesis]]:
        source_ids, source_mask = pad_sentences(batch, model.config.pad_id)
        return beam_search(
            model,
            source_ids.to(device),
            source_mask.to(device),
            beam_size=beam_size,
            num_hypotheses=num_hypotheses,
            length_penalty=length_penalty,
            # Each sentence has its own limit, so that its translation does not depend on its batch mates.
            max_target_length=[min(2 * len(ids) + 20 + len(prefix_ids), max_positions - 1) for ids in batch],
            prefixes=[prefix_ids] * len(batch),
        )

    return translate_by_length(sentences, translate, batch_sentences=batch_sentences)


def translate_texts(
    checkpoint: Checkpoint,
    texts: Sequence[str],
    *,
    beam_size: int = 4,
    num_hypotheses: int = 1,
    length_penalty: float = 1.0,
) -> list[list[tuple[str, float]]]:
    """Translate texts, one sentence each.

    Args:
        texts: Sentences of the source language, as people write them.
        beam_size: Hypotheses kept; 1 is greedy.
        num_hypotheses: Hypotheses returned for each sentence.
        length_penalty: α of score = sum / length^α.

    Returns:
        Text and score of every hypothesis, best first.

    Raises:
        SourceLengthError: A sentence has more tokens than the model takes.
    """
    found = translate_ids(
        checkpoint.model,
        [checkpoint.source_ids(text) for text in texts],
        beam_size=beam_size,
        num_hypotheses=num_hypotheses,
        length_penalty=length_penalty,
        prefix_ids=checkpoint.target_prefix_ids,
    )
    return [[(checkpoint.target_tokenizer.decode(h.target_ids), h.score) for h in hypotheses] for hypotheses in found]


def _check_lengths(sentences: Sequence[Sequence[int]], limit: int) -> None:
    for number, sentence in enumerate(sentences, start=1):
        if len(sentence) > limit:
            raise SourceLengthError(f"sentence {number} has {len(sentence)} tokens, the model takes at most {limit}")


@torch.inference_mode()
def use_fastest_threads(checkpoint: Checkpoint) -> None:
    """Let torch use as many CPU threads as are fastest now, which on busy cores is one."""
    model = checkpoint.model
    large = sum(parameter.numel() for parameter in model.parameters()) > _LARGE
    ids = torch.full((1, 8) if large else (8, 24), model.config.unk_id, device=model.output_projection.weight.device)
    if ids.device.type == "cpu" and (usable := usable_threads()) > 1:
        measured = fastest_threads(lambda: model(ids, torch.ones_like(ids, dtype=torch.bool), ids), usable)
        logger.info("using %d of %d CPU threads: %s", measured.threads, usable, measured)
