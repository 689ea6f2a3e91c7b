"""The values that callers hand to the engine and get back."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class FinishReason(enum.Enum):
    """Why the search for a hypothesis stopped."""

    END_OF_SENTENCE = "end_of_sentence"
    """The model ended the sentence."""
    MAX_LENGTH = "max_length"
    """The target length limit was reached: the text may be incomplete."""
    COPIED = "copied"
    """Nothing to translate: the text is empty or white space."""
    DEADLINE = "deadline"
    """The caller's time was up: the text is what had been found by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """Drawing tokens at random instead of searching for the best ones."""

    top_k: int
    """Tokens among which each is drawn, the likeliest, 1 to 256."""
    top_p: float
    """Of those, the likeliest whose probabilities together reach this are drawn from; over 0, 1 for all."""
    temperature: float
    """Over 0, at most 10: below 1 likely tokens are drawn even more often, above 1 less often."""
    seed: int
    """Equal seeds give equal draws, 0 or greater."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOptions:
    """How the search for a translation is made."""

    beam_size: int
    """Hypotheses kept per sentence at each step, 1 to 16; 1 is greedy search."""
    num_hypotheses: int
    """Hypotheses returned per text: 1 to beam_size, or to 16 with sampling or return_alternatives."""
    length_penalty: float
    """Exponent on the target length that divides the summed log-probability; 0 for none."""
    min_target_length: int
    """Target tokens that a sentence must have before it may end, the end token not counted."""
    max_target_length: int | None
    """Most target tokens per sentence, the end token counted; None for a limit that grows with the source."""
    coverage_penalty: float = 0.0
    """Weight of the penalty on source tokens that got little attention, 0 to 10; 0 for none."""
    repetition_penalty: float = 1.0
    """Makes tokens that a hypothesis has less likely if over 1, more likely if under; 0.1 to 10."""
    no_repeat_ngram_size: int = 0
    """Sequences of this many tokens occur at most once in a sentence, 0 to 16; 0 for no limit."""
    target_prefix: str = ""
    """What every hypothesis begins with; only for texts of a single sentence."""
    suppressed_texts: tuple[str, ...] = ()
    """What no hypothesis may hold, at most 64, each of 1 to 100 characters: their usual sequences of tokens."""
    sampling: SamplingOptions | None = None
    """Draw instead of search; needs a beam_size of 1. Of several hypotheses each is drawn by itself."""
    return_alternatives: bool = False
    """Return num_hypotheses that differ in the token after target_prefix, each continued by a search of its own."""
    token_details: bool = False
    """Whether hypotheses come with scores and alignment of their tokens."""
    partial_on_deadline: bool = False
    """Answer shortly before the deadline with the best that has been found, if the search is not done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenDetail:
    """One token of a hypothesis."""

    text: str
    """What it adds to the text, spaces included; empty for the end token and for a part of a character."""
    score: float
    """Log-probability, nats."""
    source_start: int
    """First character of the source text that it attends to most."""
    source_end: int
    """The character after the last one; equal to source_start for source tokens that stand for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One way to translate a text."""

    text: str
    score: float
    """Summed log-probability in nats divided by length ** length_penalty; of many sentences their mean by tokens."""
    token_count: int
    """Target tokens, end tokens counted; 0 for text that was copied."""
    finish_reason: FinishReason
    """Of many sentences the first reason that is not END_OF_SENTENCE, if there is one."""
    tokens: tuple[TokenDetail, ...] = ()
    """In the order of the text, if they were asked for; nothing for what was copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """One version of a model that answers requests."""

    name: str
    """Such as "zh-en"."""
    version: int
    """1 or greater."""
    source_languages: tuple[str, ...]
    """BCP-47 codes, at least one."""
    target_languages: tuple[str, ...]
    """BCP-47 codes, at least one."""
    precision: str
    """"float32", "float16" or "int8"."""
    manifest_sha256: str
    is_default: bool
    """Whether requests that name no version get this one."""
    default_options: DecodingOptions
    max_source_length: int
    """Most source tokens of a sentence, the end token counted."""
    max_target_length: int
    """Most target tokens of a sentence, the end token counted."""
    needs_target_language: bool = False
    """Whether it must be told which of its target languages to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What a request means."""

    model: ServedModel
    target_language: str
    """One of the model's, as it spells it: the one asked for, else its first."""
