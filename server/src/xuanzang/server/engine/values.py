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


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOptions:
    """How the search for a translation is made."""

    beam_size: int
    """Hypotheses kept per sentence at each step, 1 to 16; 1 is greedy search."""
    num_hypotheses: int
    """Hypotheses returned per text, 1 to beam_size."""
    length_penalty: float
    """Exponent on the target length that divides the summed log-probability; 0 for none."""
    min_target_length: int
    """Target tokens that a sentence must have before it may end, the end token not counted."""
    max_target_length: int | None
    """Most target tokens per sentence, the end token counted; None for a limit that grows with the source."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """How the engine uses the machine, and what it accepts."""

    provider: str = "auto"
    """What runs the graphs: "cpu", "cuda", or "auto" for cuda where there is one, else cpu."""
    workers: int = 0
    """Threads that decode; 0 for one per usable core, or fewer if each uses several."""
    intra_op_threads: int = 1
    """Threads that each worker uses inside one operation."""
    max_batch_sentences: int = 32
    max_batch_source_tokens: int = 2048
    """Most source tokens of a batch, padding counted."""
    batch_delay_seconds: float = 0.005
    """Longest that a sentence waits for others to share its batch while a worker is idle."""
    max_queue_source_tokens: int = 65536
    """Most source tokens waiting."""
    max_content_characters: int = 20000
    """Most characters of one text."""
