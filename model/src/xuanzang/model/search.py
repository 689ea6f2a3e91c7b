"""Beam search in PyTorch: the reference that the server's search is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from xuanzang.model.network.config import TransformerConfig
from xuanzang.model.network.transformer import Transformer


class Hypothesis(NamedTuple):
    """One finished translation of one sentence."""

    target_ids: list[int]
    """Without bos and eos."""
    score: float
    """Summed log-probability divided by length ** length_penalty, eos counted in both; nats."""
    finished: bool
    """Ended in eos, rather than at the limit."""


class SearchRules(NamedTuple):
    """When searches end."""

    none_better: bool = False
    """True if a search with enough finished hypotheses goes on while a live one, divided by its present length, is
    better than the worst of them, as transformers' with early_stopping=False."""
    forces_end: bool = False
    """True if a hypothesis at its limit ends there at no cost, as with transformers' forced_eos_token_id."""


UNTIL_FIRST = SearchRules()


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

    Of the 2 · beam_size best continuations, those among the first beam_size that end in eos are finished; the best
    beam_size others live on. A sentence is done when it has beam_size finished hypotheses (without length penalty: when
    the best continuation of all ended in eos), or at the limit, where the first beam_size count unfinished. These are
    the rules of CTranslate2.

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
    cache = model.start(
        model.encode(source_ids, source_mask).repeat_interleave(beam_size, 0),
        source_mask.repeat_interleave(beam_size, 0),
    )
    token_ids = source_ids.new_full((len(beams) * beam_size,), model.config.bos_id)
    running = beams
    for length in range(1, max(limits) + 1):
        logits, cache = model.step(token_ids, cache)
        if length <= min_target_length:
            logits[:, model.config.eos_id] = -torch.inf
        log_probs = logits.float().log_softmax(-1).view(len(running), beam_size, -1)
        forced = [beam.prefix[length - 1] for beam in running if length <= len(beam.prefix)]
        advance(running, restrict(log_probs, model.config, forced), model.config.eos_id)
        rows = [i * beam_size + parent for i, beam in enumerate(running) if not beam.done for parent in beam.parents]
        running = [beam for beam in running if not beam.done]
        if not running:
            break
        token_ids = token_ids.new_tensor([beam.last for beam in running]).flatten()
        cache = cache.select(token_ids.new_tensor(rows))
    return [beam.hypotheses() for beam in beams]


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


class Beam:
    """The hypotheses of one sentence."""

    def __init__(
        self,
        beam_size: int,
        num_hypotheses: int,
        length_penalty: float,
        max_target_length: int,
        rules: SearchRules = UNTIL_FIRST,
        prefix: Sequence[int] = (),
    ) -> None:
        self.prefix = prefix
        self._beam_size, self._num_hypotheses = beam_size, num_hypotheses
        self._penalty, self._limit, self._rules = length_penalty, max_target_length, rules
        self._tokens: list[list[int]] = [[] for _ in range(beam_size)]
        self._kept: list[Hypothesis] = []
        self._top_finished = False
        # All hypotheses are equal at first, so only one may be continued.
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
        if at_limit and self._rules.forces_end:
            alive = [(score, parent, eos_id) for parent, score in enumerate(self.scores) if score > -torch.inf]
            candidates = sorted(alive, key=lambda candidate: -candidate[0])
        for rank, (score, parent, token) in enumerate(candidates[: self._beam_size]):
            if token == eos_id:
                self._keep(self._tokens[parent], score, finished=True)
                self._top_finished |= rank == 0
            elif at_limit:
                self._keep([*self._tokens[parent], token], score, finished=False)
        live = [candidate for candidate in candidates if candidate[2] != eos_id][: self._beam_size]
        self.done = at_limit or not live or self._enough(live[0][0])
        # A tiny vocabulary may offer too few continuations: dead rows fill the beam.
        live += [(-torch.inf, 0, eos_id)] * (self._beam_size - len(live))
        self._tokens = [[*self._tokens[parent], token] for _, parent, token in live]
        self.scores, self.parents = [score for score, _, _ in live], [parent for _, parent, _ in live]

    def hypotheses(self) -> list[Hypothesis]:
        """Return the finished hypotheses, best first."""
        return sorted(self._kept, key=lambda hypothesis: -hypothesis.score)[: self._num_hypotheses]

    def _keep(self, tokens: list[int], total: float, *, finished: bool) -> None:
        self._kept.append(Hypothesis(tokens, total / (len(tokens) + finished) ** self._penalty, finished))

    def _enough(self, best_live: float) -> bool:
        if self._rules.none_better:
            scores = sorted((hypothesis.score for hypothesis in self._kept), reverse=True)[: self._beam_size]
            best = best_live / (len(self._tokens[0]) + 1) ** self._penalty
            return len(scores) >= self._beam_size and best <= scores[-1]
        if self._penalty == 0:  # sums only sink, so the first to finish on top cannot be beaten
            return self._top_finished and len(self._kept) >= self._num_hypotheses
        return len(self._kept) >= self._beam_size
