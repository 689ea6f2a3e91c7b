"""Beam search in PyTorch: the reference that the server's search is compared with."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from xuanzang.model.transformer import Transformer


class Hypothesis(NamedTuple):
    """One finished translation of one sentence."""

    target_ids: list[int]
    """Without bos and eos."""
    score: float
    """Summed log-probability, eos included, divided by length ** length_penalty, eos not counted; nats."""
    finished: bool
    """Ended in eos, rather than at the limit."""


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
    max_target_length: int = 200,
) -> list[list[Hypothesis]]:
    """Translate a batch, keeping the `beam_size` best hypotheses of each sentence at every step.

    Of the 2 · beam_size best continuations, those among the first beam_size that end in eos are finished; the best
    beam_size others live on. A sentence is done when it has beam_size finished hypotheses (without length penalty: when the
    best continuation of all ended in eos), or at the limit, where the first beam_size count as they are. These are the
    rules of CTranslate2.

    Args:
        model: In evaluation mode.
        source_ids: [batch, source], int64, eos last.
        source_mask: [batch, source], bool; True = real token.
        beam_size: Hypotheses kept; 1 is greedy search.
        num_hypotheses: Hypotheses returned.
        length_penalty: α of score = sum / length^α; eos is in the sum but not in the length, as in CTranslate2.
        min_target_length: Tokens before eos is allowed, eos not counted.
        max_target_length: Most tokens, eos counted.

    Returns:
        For each sentence at most num_hypotheses, best first.
    """
    memory = model.encode(source_ids, source_mask)
    cache = model.start(memory.repeat_interleave(beam_size, 0), source_mask.repeat_interleave(beam_size, 0))
    batch, eos_id = len(source_ids), model.config.eos_id
    beams = [_Beam(beam_size, num_hypotheses, length_penalty, max_target_length) for _ in range(batch)]
    token_ids = torch.full((batch * beam_size,), model.config.bos_id, device=source_ids.device)
    scores = torch.full((batch, beam_size), -torch.inf, device=source_ids.device)
    scores[:, 0] = 0.0  # all hypotheses are equal at first, so only one may have children
    for length in range(1, max_target_length + 1):
        logits, cache = model.step(token_ids, cache)
        log_probs = logits.float().log_softmax(-1).view(batch, beam_size, -1)
        if length <= min_target_length:
            log_probs[:, :, eos_id] = -torch.inf
        totals = (scores[:, :, None] + log_probs).flatten(1)  # [batch, beam · vocab]
        best, flat = totals.topk(min(2 * beam_size, totals.size(1)))
        parents, ids = flat // log_probs.size(-1), flat % log_probs.size(-1)
        for i, beam in enumerate(beams):
            beam.advance(best[i].tolist(), parents[i].tolist(), ids[i].tolist(), eos_id)
        if all(beam.done for beam in beams):
            break
        scores = scores.new_tensor([beam.scores for beam in beams])
        token_ids = token_ids.new_tensor([beam.last for beam in beams]).flatten()
        rows = [i * beam_size + parent for i, beam in enumerate(beams) for parent in beam.parents]
        cache = cache.select(token_ids.new_tensor(rows))
    return [beam.hypotheses() for beam in beams]


class _Beam:
    """The hypotheses of one sentence."""

    def __init__(self, beam_size: int, num_hypotheses: int, length_penalty: float, max_target_length: int) -> None:
        self._beam_size, self._num_hypotheses = beam_size, num_hypotheses
        self._penalty, self._limit = length_penalty, max_target_length
        self._tokens: list[list[int]] = [[] for _ in range(beam_size)]
        self._kept: list[Hypothesis] = []
        self._top_finished = False
        self.scores = [0.0] + [-torch.inf] * (beam_size - 1)
        self.parents = list(range(beam_size))
        self.done = False

    @property
    def last(self) -> list[int]:
        """Last token of each live hypothesis."""
        return [tokens[-1] for tokens in self._tokens]

    def advance(self, scores: list[float], parents: list[int], ids: list[int], eos_id: int) -> None:
        """Take the best continuations of one step, best first."""
        if self.done:
            return
        candidates = [c for c in zip(scores, parents, ids, strict=True) if c[0] > -torch.inf]
        at_limit = len(self._tokens[0]) + 1 >= self._limit
        for rank, (score, parent, token) in enumerate(candidates[: self._beam_size]):
            if token == eos_id:
                self._keep(self._tokens[parent], score, finished=True)
                self._top_finished |= rank == 0
            elif at_limit:
                self._keep([*self._tokens[parent], token], score, finished=False)
        live = [candidate for candidate in candidates if candidate[2] != eos_id][: self._beam_size]
        self.done = at_limit or not live or self._enough()
        # A tiny vocabulary may offer too few continuations: dead rows fill the beam.
        live += [(-torch.inf, 0, eos_id)] * (self._beam_size - len(live))
        self._tokens = [[*self._tokens[parent], token] for _, parent, token in live]
        self.scores, self.parents = [score for score, _, _ in live], [parent for _, parent, _ in live]

    def hypotheses(self) -> list[Hypothesis]:
        """Return the finished hypotheses, best first."""
        return sorted(self._kept, key=lambda hypothesis: -hypothesis.score)[: self._num_hypotheses]

    def _keep(self, tokens: list[int], total: float, *, finished: bool) -> None:
        self._kept.append(Hypothesis(tokens, total / max(1, len(tokens)) ** self._penalty, finished))

    def _enough(self) -> bool:
        if self._penalty == 0:  # sums only sink, so the first to finish on top cannot be beaten
            return self._top_finished and len(self._kept) >= self._num_hypotheses
        return len(self._kept) >= self._beam_size
