"""Searches of single sentences: their options, and the hypotheses that they find."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from xuanzang.server.engine.decoding.phrase_automaton import PhraseAutomaton, RequiredPhrases
from xuanzang.server.engine.types import DecodingOptions

_Name = TypeVar("_Name")


class RecordedStep(NamedTuple):
    """One step of the search of a sentence."""

    candidates: Sequence[tuple[float, int, int]]
    """Summed log-probability, token and parent's beam position of the best continuations, best first."""
    live: Sequence[tuple[int, int]]
    """Token and parent of the hypotheses that live on, by beam position; none after the last step."""
    endings: Sequence[Ending]
    is_last: bool
    """True if the search of the sentence is over."""


class SearchRecorder:
    """Receives the steps of one sentence from the thread that decodes it; read it when the search is over."""

    def __init__(self, *, max_steps: int) -> None:
        self._max_steps = max_steps
        self.searches = 0
        """Searches begun; `steps` are those of the last one."""
        self.no_repeat_ngram_size = 0
        """Length of token sequences that the last search had only once; 0 for no limit."""
        self.steps: list[RecordedStep] = []
        self.step_count = 0
        """Steps, dropped ones included."""

    def begin(self, no_repeat_ngram_size: int) -> None:
        """Begin a search, which may replace another."""
        self.searches += 1
        self.no_repeat_ngram_size = no_repeat_ngram_size
        self.steps, self.step_count = [], 0

    def add(self, step: RecordedStep) -> None:
        """Record a step, if there is room."""
        self.step_count += 1
        if len(self.steps) < self._max_steps:
            self.steps.append(step)


class SearchRules(NamedTuple):
    """When searches end; a model's, not a caller's."""

    none_better: bool = False
    """True if a search with enough finished hypotheses goes on while a live one, divided by its present length, is
    better than the worst of them."""
    shrinks: bool = False
    """True if each hypothesis that ends leaves the others one place less in the beam, and the last place ends the
    search, as in Marian."""
    forces_end: bool = False
    """True if a hypothesis at its limit ends there at no cost, instead of being cut."""


UNTIL_FIRST = SearchRules()
"""Rules of models that say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """Search settings of one sentence: the caller's options, in this sentence's ids."""

    decoding: DecodingOptions
    max_target_length: int
    """Maximum target tokens, eos counted."""
    prefix_ids: tuple[int, ...] = ()
    suppressed_sequences: tuple[tuple[int, ...], ...] = ()
    """Sequences of tokens that no hypothesis may hold; none is empty."""
    phrases: PhraseAutomaton | None = None
    """Phrases that every hypothesis must hold; None for none."""
    expected_phrases: RequiredPhrases | None = None
    """Phrases that the source suggests; a search that does not find them is made again, with them as `phrases`."""
    rules: SearchRules = UNTIL_FIRST
    is_never_empty: bool = False
    """True if a hypothesis without tokens, which the search allows, is no answer: the search is made again with a
    minimum of one token."""
    recorder: SearchRecorder | None = field(default=None, compare=False)
    """Recorder of the search, which must not require phrases; None, as of nearly all sentences, for no record."""

    @property
    def returned(self) -> int:
        """Number of hypotheses to return: all finished ones where any of them may hold the phrases."""
        decoding = self.decoding
        return max(decoding.num_hypotheses, decoding.beam_size if self.expected_phrases else 0)

    @property
    def forced_ids(self) -> list[int]:
        """Tokens that a hypothesis may get whatever the source suggests."""
        phrases = self.phrases or self.expected_phrases
        return [*self.prefix_ids, *(phrases.token_ids if phrases else ())]

    @property
    def edited_tokens(self) -> int:
        """Number of leading tokens of a hypothesis whose logits are edited, or all."""
        if self.edits_follow_tokens:
            return self.max_target_length
        return max(self.decoding.min_target_length, len(self.prefix_ids))

    @property
    def edits_follow_tokens(self) -> bool:
        """True if edits depend on the tokens of a hypothesis, and not on their number alone."""
        decoding = self.decoding
        return bool(decoding.repetition_penalty != 1.0 or decoding.no_repeat_ngram_size or self.suppressed_sequences)


@dataclass(slots=True, eq=False, kw_only=True)
class Sentence:
    """A sentence to decode; equal only to itself."""

    source_ids: list[int]
    """End token included."""
    options: SearchOptions


class TokenDetails(NamedTuple):
    """Score and alignment of each token of a hypothesis; eos, where there is one, is the last."""

    scores: list[float]
    """Log-probability of each, nats."""
    alignment: list[int]
    """Source position with the greatest attention of each, averaged over the heads of the last layer."""
    coverage_loss: float
    """Σ log min(attention to a source position, 1) over all positions that got any."""
    attention: Sequence[float] = ()
    """Attention that each source position got from all tokens; zeros behind the last position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetHypothesis:
    """A translation of a sentence, as ids."""

    target_ids: list[int]
    """Without start and end token."""
    score: float
    """sum / length^α in nats, plus the coverage penalty."""
    token_count: int
    """Tokens generated, eos counted."""
    finished: bool
    """True if it ended in eos, rather than at a limit."""
    details: TokenDetails | None = None
    """None unless the sentence is searched with details."""


class Ending(NamedTuple):
    """The end of a hypothesis. Most are outdone by others, so tokens are looked up only for those returned."""

    parent: int
    """Beam position, before the last step, of the hypothesis that the last token continues."""
    token: int
    token_count: int
    """Tokens generated, the last one counted."""
    score: float
    """As in `TargetHypothesis`."""
    details: TokenDetails | None


def final_score(total: float, count: int, options: DecodingOptions, details: TokenDetails | None) -> float:
    """Return the score that ranks finished hypotheses.

    Args:
        total: Sum of the log-probabilities, nats.
        count: Tokens generated, eos counted.

    Source: score = sum / length^α as in fairseq, transformers and CTranslate2; coverage penalty of Wu et al. 2016,
        arXiv:1609.08144, equation 14.
    """
    score: float = total / count**options.length_penalty
    if details and options.coverage_penalty:
        score += options.coverage_penalty * details.coverage_loss
    return score


Scored = TypeVar("Scored", Ending, TargetHypothesis)


def rank(hypotheses: Iterable[Scored], count: int) -> list[Scored]:
    """Return the best hypotheses, best first; of equals the older first."""
    return sorted(hypotheses, key=attrgetter("score"), reverse=True)[:count]


class Advance(NamedTuple, Generic[_Name]):
    """Steps that were taken."""

    steps: int
    done: list[tuple[_Name, list[TargetHypothesis]]]
    """Sentences that are done, each with its hypotheses, best first."""
    steps_ago: list[int]
    """Steps that others have taken since each was done."""
