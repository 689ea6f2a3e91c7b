"""Values that callers pass to the engine and get back."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from xuanzang.text.types import GlossaryMatch, Reading, TokenDetail


class FinishReason(enum.Enum):
    """Reason that the search for a hypothesis stopped."""

    # Without a call, unlike that of an Enum.
    __hash__ = object.__hash__

    END_OF_SENTENCE = "end_of_sentence"
    MAX_LENGTH = "max_length"
    """The target length limit was reached: the text may be incomplete."""
    COPIED = "copied"
    """Nothing to translate: the text is empty, white space, or in the target language already."""
    UNSERVED_LANGUAGE = "unserved_language"
    """The text is in a language that no model translates, and the request lets it pass."""
    DEADLINE = "deadline"
    """The deadline came first: the text is the best found until then."""
    PLACEHOLDER_LOST = "placeholder_lost"
    """The translation lost a placeholder: the text is the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """Random choice of tokens, instead of a search for the best ones."""

    top_k: int
    """Number of likeliest tokens to draw from, 1 to 256."""
    top_p: float
    """Share of their probability to draw from, likeliest first; over 0, 1 for all."""
    temperature: float
    """Divisor of the logits, over 0 and at most 10: below 1 likely tokens are drawn more often, above 1 less often."""
    seed: int
    """Seed of the draws, 0 or greater; equal seeds give equal draws."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOptions:
    """Options of the search for translations."""

    beam_size: int
    """Hypotheses kept per sentence at each step, 1 to 16; 1 is greedy search."""
    num_hypotheses: int
    """Hypotheses returned per text: 1 to beam_size, or to 16 with sampling or return_alternatives."""
    length_penalty: float
    """Exponent on the target length that divides the summed log-probability; 0 for none."""
    min_target_length: int
    """Minimum target tokens of a sentence, the end token not counted."""
    max_target_length: int | None
    """Maximum target tokens of a sentence, the end token counted; None for a limit that grows with the source."""
    coverage_penalty: float = 0.0
    """Weight of the penalty on source tokens that got little attention, 0 to 10; 0 for none."""
    repetition_penalty: float = 1.0
    """Factor on tokens that a hypothesis has: less likely above 1, more likely below; 0.1 to 10."""
    no_repeat_ngram_size: int = 0
    """Length of token sequences that may occur only once in a sentence, 0 to 16; 0 for no limit."""
    target_prefix: str = ""
    """Beginning of every hypothesis; only for texts of a single sentence."""
    suppressed_texts: tuple[str, ...] = ()
    """Texts whose usual sequences of tokens no hypothesis may hold, at most 64, each of 1 to 100 characters."""
    sampling: SamplingOptions | None = None
    """Random choice of tokens, with a beam_size of 1; each hypothesis is a separate draw. None to search."""
    return_alternatives: bool = False
    """True if hypotheses differ in the token after target_prefix, each continued by its own search."""
    token_details: bool = False
    """True if hypotheses come with scores and alignment of their tokens."""
    partial_on_deadline: bool = False
    """True if an unfinished search is answered shortly before the deadline with the best found so far."""
    refuse_long_sentences: bool = False
    """True to refuse, not to cut, a sentence over the model's limit that has no comma or white space in it."""
    quality: bool = False
    """True if hypotheses say how far to trust them; only of models with a quality head."""


class QualityFlag(enum.Enum):
    """Something suspicious about a hypothesis."""

    REPETITION = "repetition"
    """A part of it follows itself three times over, and none of the source does."""
    LENGTH_RATIO = "length_ratio"
    """It is much shorter or longer than translations of such sources are."""
    UNTRANSLATED = "untranslated"
    """Nearly all of its words are the source's, or it has a part of the source in the source's script."""
    TRUNCATED = "truncated"
    """A sentence was not finished, because of a limit or the deadline."""
    LOW_COVERAGE = "low_coverage"
    """An unusual share of the source got little attention, so a part may be left out."""
    NUMBER_LOST = "number_lost"
    """A number of the source, written in digits, is missing, or one of the translation is new."""
    NAME_LOST = "name_lost"
    """A name or identifier of the source, written in Latin letters, is missing."""
    WRONG_LANGUAGE = "wrong_language"
    """It is in another language than the one asked for."""
    CUT = "cut"
    """A sentence over the model's limit was cut where no reader would pause."""
    SOURCE_LANGUAGE = "source_language"
    """The source is in another language than the named one; for a few words, probably."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Quality estimate of a hypothesis."""

    acceptable_probability: float | None = None
    """Estimated probability that it is acceptable, 0 to 1; None for text that was copied."""
    flags: tuple[QualityFlag, ...] = ()
    """Flags in the order of the enumeration, each at most once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One translation of a text."""

    text: str
    score: float
    """Summed log-probability in nats divided by length ** length_penalty; of many sentences their mean by tokens."""
    token_count: int
    """Target tokens, end tokens counted; 0 for text that was copied."""
    finish_reason: FinishReason
    """Reason of its end; of many sentences the first that is not END_OF_SENTENCE, if there is one."""
    tokens: tuple[TokenDetail, ...] = ()
    """Details in the order of the text, if they were asked for; none of text that was copied."""
    matches: tuple[GlossaryMatch, ...] = ()
    """Terms that the text has, in its order."""
    quality: Quality | None = None
    """Estimate of its quality, if requested."""
    lost_placeholders: tuple[str, ...] = ()
    """Placeholders that the translation lost, so that the text is the source."""


class Residency(enum.Enum):
    """Place of the weights of a model that is served."""

    LOADED = "loaded"
    """In memory."""
    LOADING = "loading"
    """On the way there: a call waits for it."""
    ON_DEMAND = "on_demand"
    """In the folder of the models; the next call loads it."""
    FAILING = "failing"
    """In the folder of the models; the last call could not load it, and one after a while tries again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """One version of a model that answers requests."""

    name: str
    version: int
    """Version, 1 or greater."""
    source_languages: tuple[str, ...]
    """BCP-47 codes, at least one."""
    target_languages: tuple[str, ...]
    precision: str
    """"float32", "float16" or "int8"."""
    manifest_sha256: str
    is_default: bool
    """True if requests that name no version get this one."""
    default_options: DecodingOptions
    max_source_length: int
    """Maximum source tokens of a sentence, the end token counted."""
    max_target_length: int
    """Maximum target tokens of a sentence, the end token counted."""
    max_content_characters: int = 0
    licence: str = ""
    """Licence of the weights as their publisher states it; empty if unknown."""
    source_model: str = ""
    """The published model that it was made from; empty if there is none."""
    needs_source_language: bool = False
    """True if requests must name one of its source languages."""
    needs_target_language: bool = False
    """True if requests must name one of its target languages."""
    uses_shortlist: bool = False
    """True if sentences choose only among the pieces that their sources suggest."""
    has_quality_head: bool = False
    """True if translations can say how far to trust them."""
    residency: Residency = Residency.LOADED
    """Place of the weights."""
    residency_since: float = 0.0
    """Time since when they are there, in seconds since 1970; 0 if unknown."""
    residency_fault: str = ""
    """Reason why they could not be loaded the last time; empty unless residency is FAILING."""
    pivoted_source_languages: tuple[str, ...] = ()
    """Languages that get to its target languages through `pivot_language`, by two models, of which it is the second."""
    pivot_language: str = ""
    """Source language in which it reads the translations of a first model; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Runtime of all graphs: provider, kernels and the version of onnxruntime."""

    execution_provider: str
    """"cpu" or "cuda"."""
    kernels: str
    """Instruction set of the kernels; "none" without kernels."""
    kernels_reason: str
    """Why there are no kernels, one of `xuanzang.kernels.Reason`; empty with kernels."""
    onnxruntime_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Model and languages that a request means."""

    model: ServedModel
    target_language: str
    """Target language as the model spells it: the requested one, else its first."""
    source_language: str = ""
    """Source language as the model spells it: the requested one, else empty, which means its first."""
    readings: tuple[Reading, ...] = ()
    """How the texts are read, one by one, if the request named no source language; else empty."""
    first: Route | None = None
    """Route of the first of two models, whose translations this one's model reads; None for one model."""

    @property
    def origin(self) -> Route:
        """Route of the model that reads the texts."""
        return self.first or self


class CallerId(NamedTuple):
    """Identity of a caller, neither logged nor a label: the share that it divides with others, and its name there.

    A share belongs to one key or one network address, whatever names use it. Names without a key are not
    proved, so a name means nothing outside its share.
    """

    share: str = ""
    name: str = ""


NO_CALLER = CallerId()
"""Identity of all callers where none is told from another."""


class ModelState(enum.Enum):
    """State of a version of a model."""

    SERVING = "serving"
    """It answers requests."""
    LOADING = "loading"
    """It is being verified, tried and loaded."""
    RETIRING = "retiring"
    """It refuses new requests and finishes accepted ones."""
    ON_DEMAND = "on_demand"
    """It answers requests, the first of which loads its weights into memory."""
    UNLOADED = "unloaded"
    """It is in the folder of the models and not loaded."""
    REFUSED = "refused"
    """It is in the folder of the models and refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatus:
    """A version of a model, loaded or not."""

    name: str
    version: int
    """Version; 0 for the folder of a model that cannot be listed."""
    state: ModelState
    served: ServedModel | None = None
    """Its description; None unless it answers requests."""
    is_pinned: bool = False
    """True if it is the default version whatever others are loaded."""
    running_requests: int = 0
    refusal_reasons: tuple[str, ...] = ()
    """Reasons for refusing the bundle in the folder; an earlier one may still be serving."""
    is_previous: bool = False
    """True if it was live before, so that a rollback goes back to it."""
