"""Explanations of translations: frozen values without gRPC or protobuf types."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any

from xuanzang.client._values.results import Translation

# Of weights in JSON.
_DIGITS = 5


class AttentionKind(enum.Enum):
    """Kind of attention, by what attends to what; its name in lower case, such as "cross", will do as well."""

    UNSPECIFIED = 0
    """None, or one unknown to this version."""
    CROSS = 1
    """The decoder to the source: a row per target token, a column per source token."""
    ENCODER = 2
    """The encoder to the source: a row and a column per source token."""
    DECODER = 3
    """The decoder to its own past: a row per target token, a column for the start token and each one but the last."""


class CandidateFate(enum.Enum):
    """Fate of a candidate."""

    UNSPECIFIED = 0
    """One unknown to this version."""
    KEPT = 1
    """It lives on in the next step."""
    PRUNED = 2
    """It is given up."""
    FINISHED = 3
    """It is a whole hypothesis."""


class CandidateReason(enum.Enum):
    """Reason that a candidate was given up, finished or forced."""

    UNSPECIFIED = 0
    """None, as of a kept one, or unknown to this version."""
    END_OF_SENTENCE = 1
    """Finished: it ended in the end token."""
    MAX_LENGTH = 2
    """Finished: `max_target_length` was reached."""
    OUTSIDE_BEAM = 3
    """Pruned: `beam_size` better ones live on."""
    END_OUTSIDE_BEAM = 4
    """Pruned: it ended, and it was not among the `beam_size` best of its step."""
    SEARCH_OVER = 5
    """Pruned: the search was over, because enough hypotheses had finished."""
    FORCED = 6
    """Kept: `target_prefix`, or the choice of the target language, forced it; no other was considered."""
    REPEATED_NGRAM = 7
    """Excluded: it would repeat a sequence of `no_repeat_ngram_size` tokens."""
    SUPPRESSED = 8
    """Excluded: it would complete one of `suppressed_texts`."""
    TOO_SHORT = 9
    """Excluded: the sentence would end before `min_target_length`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceToken:
    """A token of the source, as the model reads it."""

    piece: str
    """Entry of the source vocabulary, where "▁" is a space."""
    id: int
    """Number of that entry."""
    start: int
    """Index in the text of the first character that it stands for."""
    end: int
    """Index after the last such character; equal to `start` for tokens without characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAlternative:
    """A token that might have been chosen."""

    piece: str
    """Entry of the target vocabulary."""
    id: int
    """Number of that entry."""
    score: float
    """Log-probability in nats, at most 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetToken:
    """A token of the best hypothesis."""

    piece: str
    """Entry of the target vocabulary, where "▁" is a space."""
    id: int
    """Number of that entry."""
    text: str
    """Text that the token adds, spaces included; empty for the end token and incomplete characters."""
    score: float
    """Log-probability in nats, at most 0; 0 if it was forced."""
    source_token: int
    """Index of the source token that it attends to most."""
    alternatives: tuple[TokenAlternative, ...]
    """The likeliest tokens at this step, best first, at most 5."""
    forced: bool
    """True if `target_prefix` or the choice of the target language forced it."""
    candidate: int
    """Index of its candidate in the search step with the same index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Attention of one layer, averaged over its heads or of one of them."""

    kind: AttentionKind
    """Kind of attention, by what attends to what."""
    layer: int
    """Layer, counted from 0."""
    head: int | None
    """Head, counted from 0; None for the mean of all."""
    weights: tuple[tuple[float, ...], ...]
    """A row for each token that attends, with a weight for each that is attended to; a row sums to 1."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it, with weights of 5 digits."""
        weights = [[round(weight, _DIGITS) for weight in row] for row in self.weights]
        return {"kind": self.kind.name.lower(), "layer": self.layer, "head": self.head, "weights": weights}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCandidate:
    """A continuation of a hypothesis by one token."""

    parent: int | None
    """Index, in the step before, of the candidate that it continues; None in the first step."""
    piece: str
    """Entry of the target vocabulary."""
    id: int
    """Number of that entry."""
    score: float | None
    """Summed log-probability in nats; None for a token that options excluded."""
    fate: CandidateFate
    """Its outcome."""
    reason: CandidateReason
    """Reason; UNSPECIFIED for a candidate that was kept, unless it was forced."""
    final_score: float | None
    """Score that ranks finished hypotheses; None of others."""
    rank: int | None
    """Rank among the hypotheses returned, 1 for the best; None of others."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        reason = None if self.reason is CandidateReason.UNSPECIFIED else self.reason.name.lower()
        return asdict(self) | {"fate": self.fate.name.lower(), "reason": reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchStep:
    """One step of the search."""

    candidates: tuple[SearchCandidate, ...]
    """Continuations of all live hypotheses, best first, then those that options excluded."""
    omitted_candidates: int
    """Candidates beyond the server's limit."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        candidates = [candidate.as_dict() for candidate in self.candidates]
        return {"candidates": candidates, "omitted_candidates": self.omitted_candidates}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The translation of one sentence, and how its best hypothesis was found."""

    translation: Translation
    """The translation, as `translate_one` returns it, with scores."""
    source_tokens: tuple[SourceToken, ...]
    """Tokens of the source, end token last."""
    target_tokens: tuple[TargetToken, ...]
    """Tokens of the best hypothesis, end token last, as many as the server's limit allows."""
    attention: tuple[Attention, ...]
    """Attention, ordered by kind, layer and head."""
    search_steps: tuple[SearchStep, ...]
    """Steps of the search, as many as the server's limit allows."""
    omitted_steps: int
    """Steps beyond the server's limit."""
    searches: int
    """Searches made: 1, or 2 if the first found a repetition; the steps are those of the last."""
    no_repeat_ngram_size: int
    """Length of token sequences that could not occur twice in the last search; 0: no restriction."""
    max_target_length: int
    """Maximum number of target tokens that was in effect."""

    @property
    def text(self) -> str:
        """Text of the best hypothesis."""
        return self.translation.text

    @property
    def path(self) -> tuple[SearchCandidate, ...]:
        """Candidates that make up the best hypothesis, as far as the steps go."""
        steps = zip(self.target_tokens, self.search_steps, strict=False)
        return tuple(step.candidates[token.candidate] for token, step in steps)

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as docs/explaining.md describes its JSON, of dictionaries, lists and plain values."""
        return {
            "text": self.text,
            "model": self.translation.model,
            "model_version": self.translation.model_version,
            "hypotheses": [
                {"text": each.text, "score": each.score, "finish_reason": each.finish_reason.name.lower()}
                for each in self.translation.hypotheses
            ],
            "source_tokens": [asdict(token) for token in self.source_tokens],
            "target_tokens": [asdict(token) for token in self.target_tokens],
            "attention": [attention.as_dict() for attention in self.attention],
            "search_steps": [step.as_dict() for step in self.search_steps],
            "omitted_steps": self.omitted_steps,
            "searches": self.searches,
            "no_repeat_ngram_size": self.no_repeat_ngram_size,
            "max_target_length": self.max_target_length,
        }
