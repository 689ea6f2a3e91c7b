"""Beam search in PyTorch: the reference that the server's search is compared with.

Of the 2 · beam_size best continuations, those among the first beam_size that end in eos are finished; the best
beam_size others live on. A sentence is done when it has beam_size finished hypotheses (without length penalty: when
the best continuation of all ended in eos), or at the limit, where the first beam_size count unfinished. These are
the rules of CTranslate2.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from xuanzang.model.beams import UNTIL_FIRST, Beam, Hypothesis, SearchRules
from xuanzang.model.network.cache import DecoderCache
from xuanzang.model.network.config import TransformerConfig
from xuanzang.model.network.transformer import Transformer


@torch.inference_mode()
def beam_search(
    model: Transformer,
    source_ids: Tensor,
    source_mask: Tensor,
    *,
    beam_size: int = 4,
    num_hypotheses: int = 1,
    length_penalty: float = 1.0,
    min_target_length: int = 0,
    max_target_length: int | Sequence[int] = 200,
    prefixes: Sequence[Sequence[int]] = (),
    rules: SearchRules = UNTIL_FIRST,
) -> list[list[Hypothesis]]:
    """Translate a batch, keeping the `beam_size` best hypotheses of each sentence at every step.

    Args:
        model: Model in evaluation mode.
        source_ids: [batch, source], int64, eos last.
        source_mask: [batch, source], bool; True = real token.
        beam_size: Hypotheses kept; 1 is greedy search.
        length_penalty: α of score = sum / length^α, eos counted in both, as in CTranslate2.
        min_target_length: Tokens before eos is allowed, eos not counted.
        max_target_length: Maximum tokens, eos counted; one for all sentences or one for each.
        prefixes: Beginning of the hypotheses of each sentence, which costs nothing and counts towards their length; all
            of one length, or none.
        rules: When the search ends.

    Returns:
        For each sentence at most num_hypotheses, best first.
    """
    limits = [max_target_length] * len(source_ids) if isinstance(max_target_length, int) else max_target_length
    beams = [
        Beam(beam_size, num_hypotheses, length_penalty, limit, rules, prefix)
        for limit, prefix in zip(limits, prefixes or [()] * len(limits), strict=True)
    ]
    memory, mask = model.encode(source_ids, source_mask), source_mask.repeat_interleave(beam_size, 0)
    cache = model.start(memory.repeat_interleave(beam_size, 0), mask)
    first_ids = source_ids.new_full((len(beams) * beam_size,), model.config.bos_id)
    _search(model, beams, first_ids, cache, min_target_length=min_target_length, max_target_length=max(limits))
    return [beam.hypotheses() for beam in beams]


def _search(
    model: Transformer,
    beams: Sequence[Beam],
    token_ids: Tensor,
    cache: DecoderCache,
    *,
    min_target_length: int,
    max_target_length: int,
) -> None:
    """Step until every sentence is done.

    Args:
        token_ids: First input of the decoder. [batch * beam], int64.
    """
    config, running = model.config, beams
    for length in range(1, max_target_length + 1):
        logits, cache = model.step(token_ids, cache)  # [batch * beam, vocab]
        if length <= min_target_length:
            logits[:, config.eos_id] = -torch.inf
        log_probs = logits.float().log_softmax(-1).view(len(running), -1, logits.size(-1))  # [batch, beam, vocab]
        forced = [beam.prefix[length - 1] for beam in running if length <= len(beam.prefix)]
        advance(running, restrict(log_probs, config, forced), config.eos_id)
        width = log_probs.size(1)
        rows = [i * width + parent for i, beam in enumerate(running) if not beam.done for parent in beam.parents]
        running = [beam for beam in running if not beam.done]
        if not running:
            return
        token_ids = token_ids.new_tensor([beam.last for beam in running]).flatten()
        cache = cache.select(token_ids.new_tensor(rows))


def restrict(log_probs: Tensor, config: TransformerConfig, forced: Sequence[int]) -> Tensor:
    """Leave only the continuations that a search may choose.

    Args:
        log_probs: [batch, beam, vocab]; changed.
        config: Shape of the model, which names the pieces never chosen.
        forced: The only continuation of each sentence, which costs nothing; empty if all are free.

    Returns:
        [batch, beam, vocab].
    """
    if not forced:
        log_probs[..., list(config.banned_ids)] = -torch.inf
        return log_probs
    restricted = torch.full_like(log_probs, -torch.inf)
    restricted[range(len(forced)), :, forced] = 0.0
    return restricted


def advance(beams: Sequence[Beam], log_probs: Tensor, eos_id: int) -> None:
    """Give each sentence its best continuations.

    Args:
        beams: Running hypotheses, one object for each sentence.
        log_probs: [batch, beam, vocab].
        eos_id: Id that ends a hypothesis.
    """
    _, beam_size, vocab_size = log_probs.shape
    scores = log_probs.new_tensor([beam.scores for beam in beams])
    totals = (scores[:, :, None] + log_probs).flatten(1)  # [batch, beam · vocab]
    best, flat = totals.topk(min(2 * beam_size, totals.size(1)))
    parents, ids = flat // vocab_size, flat % vocab_size
    for i, beam in enumerate(beams):
        beam.advance(best[i].tolist(), parents[i].tolist(), ids[i].tolist(), eos_id)
