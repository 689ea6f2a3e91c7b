"""What callers give and get: frozen values, free of gRPC and protobuf types."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from xuanzang.client._errors import TranslationError


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """How tokens are drawn at random; what is left out or None is the server's default."""

    top_k: int | None = None
    """Draw among so many tokens, the likeliest, 1 to 256; None: 256."""
    top_p: float | None = None
    """Of those, draw among the likeliest whose probabilities reach this sum, above 0 to 1; None: 1, all of them."""
    temperature: float | None = None
    """Below 1 likely tokens are drawn even more often, above 1 less often; above 0 to 10; None: 1."""
    seed: int | None = None
    """Equal requests with equal seeds get equal draws, 0 to 2147483647; None: another for every request."""


class TranslateOptions(TypedDict, total=False):
    """Keyword arguments that every translate method takes; what is left out or None is the server's default."""

    source_language: str | None
    """BCP-47 code of the texts' language, such as "zh"."""
    target_language: str | None
    """BCP-47 code of the language to translate into, such as "en"."""
    model: str | None
    """Name of a model, as `list_models` gives it."""
    beam_size: int | None
    """Hypotheses kept per sentence at each step, 1 to 16; 1 is greedy search, and what `sampling` needs and gets."""
    num_hypotheses: int | None
    """Hypotheses returned per text: 1 to `beam_size`, with `sampling` or `return_alternatives` 1 to 16; more than 1
    only for texts of a single sentence."""
    length_penalty: float | None
    """Exponent on the target length that divides the summed log-probability, 0 to 10; 0 is none."""
    min_target_length: int | None
    """Least number of target tokens per sentence, the end token not counted."""
    max_target_length: int | None
    """Most target tokens per sentence, the end token counted."""
    return_scores: bool | None
    """Whether hypotheses carry their score."""
    coverage_penalty: float | None
    """Weight of the penalty on hypotheses that leave out a part of the source, 0 to 10; 0 is none."""
    repetition_penalty: float | None
    """Makes tokens that a hypothesis already has less likely if above 1, more likely if below; 0.1 to 10, 1 is none."""
    no_repeat_ngram_size: int | None
    """No sequence of so many tokens occurs twice in a sentence, 0 to 16; 0: any may."""
    target_prefix: str | None
    """What every hypothesis begins with, at most 2000 characters; only for texts of a single sentence."""
    suppressed_texts: Sequence[str] | None
    """What no hypothesis may hold, at most 64, each of 1 to 100 characters, in their usual spelling as tokens."""
    sampling: SamplingOptions | None
    """Draw each token at random instead of searching; several hypotheses are several draws."""
    return_alternatives: bool | None
    """Whether the hypotheses differ in the token right after `target_prefix`, each continued by a search of its own."""
    token_details: bool | None
    """Whether hypotheses carry their tokens with scores and places in the source."""
    partial_on_deadline: bool | None
    """Whether to answer shortly before the timeout with the best found so far, finish reason DEADLINE; without effect
    in `translate_stream`, whose texts have no timeout of their own."""


class FinishReason(enum.Enum):
    """Why the search for a hypothesis stopped."""

    UNSPECIFIED = 0
    """The server gave no reason, or one that this version does not know."""
    END_OF_SENTENCE = 1
    """The model ended the sentence."""
    MAX_LENGTH = 2
    """`max_target_length` was reached: the text may be incomplete."""
    COPIED = 3
    """Nothing to translate: the text is empty or white space."""
    DEADLINE = 4
    """Time ran out, and `partial_on_deadline` was set: the text is what had been found by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenDetail:
    """One token of a hypothesis."""

    text: str
    """What it adds to its sentence, spaces included; empty for the end token and for an incomplete character."""
    score: float
    """Log-probability in nats, at most 0."""
    source_start: int
    """First character of the source text that it attends to most."""
    source_end: int
    """The character after the last one; equal to `source_start` if it attends to the end of its sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One way to translate a text."""

    text: str
    """The text in the target language."""
    score: float | None
    """Length-normalised log-probability in nats, at most 0; None unless `return_scores` was asked for."""
    token_count: int
    """Target tokens generated, end tokens counted; 0 for texts that were answered as they are."""
    finish_reason: FinishReason
    """Why the search stopped."""
    tokens: tuple[TokenDetail, ...] = ()
    """In the order of the text, end tokens too; empty unless `token_details` was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The translation of one text."""

    hypotheses: tuple[Hypothesis, ...]
    """One or more, best first."""
    model: str
    """Name of the model that translated."""
    model_version: str
    """Version of that model, such as "1"."""

    @property
    def text(self) -> str:
        """Give the text of the best hypothesis."""
        return self.hypotheses[0].text


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedTranslation:
    """What became of one text of a stream: a translation, or an error that concerns this text alone."""

    index: int
    """Position of the text in the iterable that was given, from 0."""
    source: str
    """The text in the source language."""
    result: Translation | TranslationError
    """The translation, or why there is none."""

    @property
    def error(self) -> TranslationError | None:
        """Give the reason why there is no translation, or None."""
        return self.result if isinstance(self.result, TranslationError) else None

    @property
    def translation(self) -> Translation:
        """Give the translation.

        Raises:
            TranslationError: This text has none; the same object as `error`.
        """
        if isinstance(self.result, TranslationError):
            raise self.result
        return self.result


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressiveTranslation:
    """What became certain of a translation since the one before."""

    text_delta: str
    """To be appended to those before; nothing of it changes later. All together are the text of the best hypothesis."""
    translation: Translation | None
    """The whole translation with the last one, before it None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingDefaults:
    """What a model does where a request leaves an option out; None where that depends on the text."""

    beam_size: int | None
    num_hypotheses: int | None
    length_penalty: float | None
    min_target_length: int | None
    max_target_length: int | None
    coverage_penalty: float | None
    repetition_penalty: float | None
    no_repeat_ngram_size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model that the server offers."""

    name: str
    """Name to use in requests, such as "zh-en"."""
    version: str
    """Version, a positive whole number as text."""
    source_languages: tuple[str, ...]
    """BCP-47 codes that it translates from."""
    target_languages: tuple[str, ...]
    """BCP-47 codes that it translates into."""
    precision: str
    """Number format of the weights: "float32", "float16" or "int8"."""
    manifest_sha256: str
    """Digest of the bundle's manifest: the same digest on two servers means the same translations."""
    is_default: bool
    """Whether requests get this version."""
    defaults: DecodingDefaults
    """What it does where a request leaves an option out."""
    max_source_length: int
    """Most source tokens per sentence; a longer sentence is refused."""
    max_target_length: int
    """Most target tokens per sentence, the end token counted."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TLSConfig:
    """How to reach a server over TLS. All parts are PEM bytes; `TLSConfig()` checks the server against public roots."""

    root_certificates: bytes | None = None
    """Authorities that may sign the server's certificate; None: the public ones."""
    certificate_chain: bytes | None = None
    """The client's own certificate, for servers that ask for one; needs `private_key`."""
    private_key: bytes | None = None
    """Key of the client's own certificate; needs `certificate_chain`."""
    server_name: str | None = None
    """Name that the server's certificate must bear, where it differs from the address."""

    def __post_init__(self) -> None:
        if (self.certificate_chain is None) != (self.private_key is None):
            raise ValueError("certificate_chain and private_key go together: give both or neither")
