"""What is asked of an explanation, its limits, and what it says."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from xuanzang.server.engine.arrays import Floats


class AttentionKind(enum.Enum):
    """What attends to what."""

    CROSS = "cross"
    """The decoder to the source."""
    ENCODER = "encoder"
    """The encoder to the source."""
    DECODER = "decoder"
    """The decoder to its own past."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationLimits:
    """How much is explained."""

    max_running: int = 2
    """Explanations made at once; 0 for none at all."""
    max_tokens: int = 128
    """Source tokens of a sentence, and steps that are shown."""
    max_weights: int = 1_000_000
    """Weights of attention in one explanation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionChoice:
    """Requested attention."""

    kinds: tuple[AttentionKind, ...] = (AttentionKind.CROSS,)
    """Each at most once."""
    layers: tuple[int, ...] = ()
    """Layers from 0, each at most once; empty for all."""
    heads: bool = False
    """Whether each head is returned, besides the mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceToken:
    """A token of the source."""

    piece: str
    token_id: int
    start: int
    """First character of the content that it stands for."""
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A token that might have been chosen."""

    piece: str
    token_id: int
    score: float
    """Log-probability, nats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetToken:
    """A token of the best hypothesis."""

    piece: str
    token_id: int
    text: str
    """Text that it adds; empty for the end token."""
    score: float
    """Log-probability, nats."""
    source_token: int
    """Index of the source token that it attends to most."""
    alternatives: tuple[Alternative, ...]
    forced: bool
    candidate: int
    """Index of its candidate in the search step with the same index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Attention of one layer."""

    kind: AttentionKind
    layer: int
    head: int | None
    """None for the mean of all heads."""
    weights: Floats
    """Rows attend to columns and sum to 1, [row, column]."""


class CandidateFate(enum.Enum):
    """What became of a candidate."""

    KEPT = "kept"
    PRUNED = "pruned"
    FINISHED = "finished"


class CandidateReason(enum.Enum):
    """Why a candidate was pruned, finished or forced."""

    END_OF_SENTENCE = "end_of_sentence"
    MAX_LENGTH = "max_length"
    OUTSIDE_BEAM = "outside_beam"
    END_OUTSIDE_BEAM = "end_outside_beam"
    SEARCH_OVER = "search_over"
    FORCED = "forced"
    REPEATED_NGRAM = "repeated_ngram"
    SUPPRESSED = "suppressed"
    TOO_SHORT = "too_short"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A continuation of a hypothesis by one token."""

    parent: int | None
    """Index of the candidate of the step before that it continues; None in the first step."""
    token_id: int
    piece: str
    score: float | None
    """Summed log-probability, nats; None for a token that options excluded."""
    fate: CandidateFate
    reason: CandidateReason | None = None
    final_score: float | None = None
    rank: int | None = None
    """Rank among the hypotheses returned, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeStep:
    """The candidates of one step of the search."""

    candidates: Sequence[Candidate]
    omitted: int
    """Candidates beyond the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """How the translation of a sentence was found."""

    source_tokens: Sequence[SourceToken]
    target_tokens: Sequence[TargetToken]
    attention: Sequence[Attention]
    steps: Sequence[TreeStep]
    omitted_steps: int
    searches: int
    no_repeat_ngram_size: int
    max_target_length: int
