"""What is asked of the search for one sentence, and what it finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from xuanzang.server.engine.types import SamplingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How one sentence is searched; every field resolved."""

    beam_size: int
    """Hypotheses kept; 1 is greedy search."""
    num_hypotheses: int
    """Hypotheses returned, at most beam_size."""
    length_penalty: float
    """Exponent α on the length; 0 for none."""
    min_target_length: int
    """Tokens before eos is allowed, eos not counted."""
    max_target_length: int
    """Most tokens, eos counted."""
    coverage_penalty: float = 0.0
    """β of β · Σ log min(attention to a source position, 1), added to scores; 0 for none."""
    repetition_penalty: float = 1.0
    """Divides positive logits of tokens that a hypothesis has, multiplies negative ones; 1 for none."""
    no_repeat_ngram_size: int = 0
    """Sequences of this many tokens occur at most once; 0 for no limit."""
    prefix_ids: tuple[int, ...] = ()
    """What every hypothesis begins with."""
    suppressed_sequences: tuple[tuple[int, ...], ...] = ()
    """Sequences of tokens that no hypothesis may hold; none is empty."""
    sampling: SamplingOptions | None = None
    """None to search for the best."""
    traced: bool = False
    """Whether scores and alignment are wanted for every token."""

    @property
    def constrained_tokens(self) -> int:
        """How many tokens of a hypothesis need edited logits before they are chosen; the first ones, or all."""
        if self.repetition_penalty != 1.0 or self.no_repeat_ngram_size or self.suppressed_sequences:
            return self.max_target_length
        return max(self.min_target_length, len(self.prefix_ids))


@dataclass(slots=True, eq=False, kw_only=True)
class Sentence:
    """A sentence to decode; equal only to itself."""

    source_ids: list[int]
    """End token included."""
    options: SearchOptions


class Trace(NamedTuple):
    """What is known of each token of a hypothesis; eos, where there is one, is the last."""

    scores: list[float]
    """Log-probability of each, nats."""
    alignment: list[int]
    """Source position that each attends to most, averaged over the heads of the last layer."""
    coverage_loss: float
    """Σ log min(attention to a source position, 1) over all positions that got any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetHypothesis:
    """A translation of a sentence, as ids."""

    target_ids: list[int]
    """Without start and end token."""
    score: float
    """sum / length^α, nats, and the coverage penalty."""
    token_count: int
    """Tokens generated, eos counted."""
    finished: bool
    """Ended in eos, rather than at a limit."""
    trace: Trace | None = None
    """If asked for."""


class Ending(NamedTuple):
    """The end of a hypothesis. Most are outdone by others, so its tokens are looked up when they are wanted."""

    parent: int
    """The hypothesis that its last token continued, as they stood then."""
    token: int
    """The last one."""
    token_count: int
    """Tokens generated, this one counted."""
    score: float
    """As of `TargetHypothesis`."""
    trace: Trace | None


def final_score(total: float, count: int, options: SearchOptions, trace: Trace | None) -> float:
    """Return the score of a hypothesis.

    Args:
        total: Sum of its log-probabilities.
        count: Tokens generated, eos counted.
        options: Of its sentence.
        trace: If kept.
    """
    score: float = total / count**options.length_penalty
    if trace and options.coverage_penalty:
        # Wu et al. 2016, arXiv:1609.08144, equation 14.
        score += options.coverage_penalty * trace.coverage_loss
    return score


Scored = TypeVar("Scored", Ending, TargetHypothesis)


class Finished:
    """The hypotheses of a sentence that have ended."""

    def __init__(self, options: SearchOptions) -> None:
        self._options = options
        self._top_finished = False
        self.endings: list[Ending] = []

    def add(self, ending: Ending, *, on_top: bool) -> None:
        """Keep a hypothesis.

        Args:
            ending: Where it has ended, or is cut at the limit.
            on_top: Whether it was the best of all continuations.
        """
        self.endings.append(ending)
        self._top_finished |= on_top

    def enough(self) -> bool:
        """Return whether the search of the sentence is over."""
        if self._options.length_penalty:
            return len(self.endings) >= self._options.beam_size
        # Sums only sink, so the first to finish on top cannot be beaten.
        return self._top_finished and len(self.endings) >= self._options.num_hypotheses

    def best(self) -> list[Ending]:
        """Return what is to be returned, best first."""
        return rank(self.endings, self._options.num_hypotheses)


def rank(hypotheses: Iterable[Scored], count: int) -> list[Scored]:
    """Return the best hypotheses, best first; of equals the older first."""
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[:count]
