"""Options and results: frozen values without gRPC or protobuf types."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypedDict

from xuanzang.client._capsule import Capsule, Exchange
from xuanzang.client._errors import TranslationError
from xuanzang.client._provenance import Provenance
from xuanzang.client._quality import Quality


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """Settings of random sampling; those left out or None have the default of the server."""

    top_k: int | None = None
    """Number of most likely tokens to draw from, 1 to 256; None: 256."""
    top_p: float | None = None
    """Probability that the most likely of these tokens must reach together, above 0 to 1; None: 1, all of them."""
    temperature: float | None = None
    """Divisor of log-probabilities, above 0 to 10: below 1 favours likely tokens, above 1 rare ones; None: 1."""
    seed: int | None = None
    """Seed, 0 to 2147483647; equal requests with equal seeds give equal draws. None: a new one for every request."""


Glossary: TypeAlias = Mapping[str, str | Sequence[str]]
"""Translations of terms, by term."""


class ProtectedPattern(enum.Enum):
    """Kind of text that is not translated; its name in lower case, such as "url", will do as well."""

    UNSPECIFIED = 0
    """None, or one unknown to this version."""
    URL = 1
    """Addresses of pages."""
    EMAIL = 2
    """Addresses of mail."""
    CODE = 3
    """Text between backticks, and names such as max_size, parseDate, open() and --force."""
    PLACEHOLDER = 4
    """Placeholders such as {name}, ${name}, %s and %(name)s."""
    NUMBER = 5
    """Numbers in digits."""
    TAG = 6
    """Tags and entities of markup."""


ContentFormat = Literal["text", "html", "xml"]
"""How texts are written, and their translations."""


class TranslateOptions(TypedDict, total=False):
    """Keyword arguments of every translate method; those left out or None have the default of the server."""

    source_language: str | None
    """BCP-47 code of the texts' language, such as "zh"; if left out, the server detects it where there is a choice."""
    target_language: str | None
    """BCP-47 code of the language to translate into, such as "en"."""
    model: str | None
    """Name of a model, as listed by `list_models`, or "name/version"."""
    beam_size: int | None
    """Hypotheses kept per sentence at each step, 1 to 16. 1 is greedy search and the only value with `sampling`."""
    num_hypotheses: int | None
    """Hypotheses returned per text: 1 to `beam_size`, with `sampling` or `return_alternatives` 1 to 16; more than 1
    only for texts of a single sentence."""
    length_penalty: float | None
    """Exponent on the target length that divides the summed log-probability, 0 to 10; 0 is none."""
    min_target_length: int | None
    """Minimum number of target tokens per sentence, end token not counted."""
    max_target_length: int | None
    """Maximum number of target tokens per sentence, end token counted."""
    return_scores: bool | None
    """Whether hypotheses carry their score."""
    coverage_penalty: float | None
    """Weight of the penalty on hypotheses that leave out part of the source, 0 to 10; 0 is none."""
    repetition_penalty: float | None
    """Factor against tokens that the hypothesis already has, 0.1 to 10: above 1 they become less likely; 1 is none."""
    no_repeat_ngram_size: int | None
    """Length of token sequences that may not occur twice in a sentence, 0 to 16; 0: no restriction."""
    target_prefix: str | None
    """Text that every hypothesis starts with, at most 2000 characters; only for texts of a single sentence."""
    suppressed_texts: Sequence[str] | None
    """Texts that no hypothesis may contain, at most 64 of 1 to 100 characters each, in their usual tokenisation."""
    sampling: SamplingOptions | None
    """Settings for drawing tokens at random instead of searching; several hypotheses are several draws."""
    return_alternatives: bool | None
    """Whether the hypotheses differ in the token right after `target_prefix`, each continued by a search of its own."""
    token_details: bool | None
    """Whether hypotheses carry their tokens with scores and source spans."""
    partial_on_deadline: bool | None
    """Whether to answer shortly before the timeout with the best hypotheses so far, finish reason DEADLINE; without
    effect in `translate_stream`, whose texts have no timeout of their own."""
    refuse_long_sentences: bool | None
    """Whether a sentence of more tokens than the model takes, and without comma or white space, is refused, not cut."""
    content_format: ContentFormat | None
    """How texts are written: as "text", the default, or as "html" or "xml", whose tags the translation has around the
    same words; not with `token_details`."""
    return_provenance: bool | None
    """Whether translations say how they were made, and can be kept as replay capsules."""
    glossary: Glossary | None
    """Terms to keep, such as {"源": "spring"}, at most 1000: each with one translation or a sequence of them, one of
    which every hypothesis holds where the term occurs. Not together with `sampling` nor with a `beam_size` of 1."""
    glossary_name: str | None
    """Glossary of the server, as listed by `list_glossaries`, whose terms are kept as well."""
    protected_patterns: Sequence[ProtectedPattern | str] | None
    """Kinds of text that are not translated, such as "url"; the rules of `glossary` hold."""
    return_quality: bool | None
    """Whether hypotheses say how far to trust them; only of models that have a quality head."""


class FinishReason(enum.Enum):
    """Reason why the search for a hypothesis stopped."""

    UNSPECIFIED = 0
    """The server gave no reason, or one unknown to this version."""
    END_OF_SENTENCE = 1
    """The model ended the sentence."""
    MAX_LENGTH = 2
    """`max_target_length` was reached: the text may be incomplete."""
    COPIED = 3
    """There was nothing to translate: the text is empty or white space."""
    DEADLINE = 4
    """Time ran out and `partial_on_deadline` was set: the text is the best found until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenDetail:
    """One token of a hypothesis."""

    text: str
    """Text that the token adds to its sentence, spaces included; empty for the end token and incomplete characters."""
    score: float
    """Log-probability in nats, at most 0."""
    source_start: int
    """Index in the source text of the first character that the token attends to most."""
    source_end: int
    """Index after the last such character; equal to `source_start` if the token attends to no character of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One way to translate a text."""

    text: str
    """The text in the target language."""
    score: float | None
    """Length-normalised log-probability in nats, at most 0; None unless `return_scores` is set."""
    token_count: int
    """Number of target tokens, end tokens counted; 0 for texts that are answered unchanged."""
    finish_reason: FinishReason
    """Reason why the search stopped."""
    tokens: tuple[TokenDetail, ...] = ()
    """Tokens in the order of the text, end tokens included; empty unless `token_details` is set."""
    quality: Quality | None = None
    """How far to trust it; None unless `return_quality` is set."""


class GlossaryOutcome(enum.Enum):
    """What became of a term that occurs in a text."""

    UNSPECIFIED = 0
    """The server did not say, or something unknown to this version."""
    HONOURED = 1
    """The best hypothesis holds one of its translations."""
    NOT_WRITABLE = 2
    """It does not: the model's vocabulary cannot write any of them."""
    NO_ROOM = 3
    """It does not: the sentence has too many terms, or too few tokens are left for them."""
    NOT_REACHED = 4
    """It does not: the search ended first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlossaryMatch:
    """A term or protected text that occurs in a text, and what became of it."""

    source: str
    """The text as it is in the source."""
    source_start: int
    """Index of its first character."""
    source_end: int
    """Index after its last character."""
    target: str
    """Translation that the best hypothesis holds; empty if it holds none."""
    outcome: GlossaryOutcome
    """What became of it."""
    pattern: ProtectedPattern
    """Pattern that found it; UNSPECIFIED for a term."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The translation of one text."""

    hypotheses: tuple[Hypothesis, ...]
    """One or more, best first."""
    model: str
    """Name of the model that translated."""
    model_version: str
    """Version of that model, such as "1"."""
    provenance: Provenance | None = None
    """How it was made; None unless `return_provenance` is set."""
    exchange: Exchange | None = field(default=None, repr=False, compare=False)
    """Request and answer for `capsule`; None unless `return_provenance` is set."""
    detected_language: str = ""
    """Language of the text, such as "zh-Hans", if the server had to detect it; else empty."""
    glossary_matches: tuple[GlossaryMatch, ...] = ()
    """Terms and protected texts that occur in the text, in its order."""

    @property
    def text(self) -> str:
        """Text of the best hypothesis."""
        return self.hypotheses[0].text

    def capsule(self) -> Capsule:
        """Return the request and this answer, to be sent again and compared; `Capsule.of` takes several.

        Raises:
            ValueError: It was made without `return_provenance`, or cut at its deadline.
        """
        return Capsule.of([self])


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGlossary:
    """A glossary that the server holds."""

    name: str
    """Name for `glossary_name`."""
    source_language: str
    """BCP-47 code of the language of its terms."""
    target_language: str
    """BCP-47 code of the language of their translations."""
    version: str
    """Version that its author has written; may be empty."""
    entry_count: int
    """Number of terms."""
    sha256: str
    """SHA-256 of its file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedTranslation:
    """Result of one text of a stream: a translation, or an error of this text alone."""

    index: int
    """Position of the text in the iterable, counted from 0."""
    source: str
    """The text in the source language."""
    result: Translation | TranslationError
    """The translation, or the error instead of one."""

    @property
    def error(self) -> TranslationError | None:
        """The error, or None if there is a translation."""
        return self.result if isinstance(self.result, TranslationError) else None

    @property
    def translation(self) -> Translation:
        """The translation.

        Raises:
            TranslationError: The text has none; the same object as `error`.
        """
        if isinstance(self.result, TranslationError):
            raise self.result
        return self.result


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressiveTranslation:
    """One part of a progressive translation."""

    text_delta: str
    """Text to append to that of the previous parts; all together are the text of the best hypothesis."""
    translation: Translation | None
    """The whole translation in the last part, None in all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedLanguage:
    """A language that a text may be in."""

    code: str
    """BCP-47 code; for Chinese "zh-Hans" or "zh-Hant", or "zh" if its characters are the same in both."""
    confidence: float
    """Probability among the languages that the server tells apart, 0.1 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingDefaults:
    """Values of the options that a request leaves out; None for those that are off or depend on the text."""

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
    """Name for requests, such as "zh-en"."""
    version: str
    """Version, a positive integer as text."""
    source_languages: tuple[str, ...]
    """BCP-47 codes of the languages that the model translates from."""
    target_languages: tuple[str, ...]
    """BCP-47 codes of the languages that the model translates into."""
    precision: str
    """Number format of the weights: "float32", "float16" or "int8"."""
    manifest_sha256: str
    """Hexadecimal SHA-256 of the bundle's manifest; equal digests mean equal bundles."""
    is_default: bool
    """Whether requests that name no version get this one."""
    defaults: DecodingDefaults
    """Values of the options that a request leaves out."""
    max_source_length: int
    """Maximum number of source tokens per sentence; a longer one is cut, or refused with `refuse_long_sentences`."""
    max_target_length: int
    """Maximum number of target tokens per sentence, end token counted."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TLSConfig:
    """TLS settings; certificates and keys are PEM bytes. `TLSConfig()` trusts the public certificate authorities."""

    root_certificates: bytes | None = None
    """Authorities trusted to sign the server's certificate; None: the public ones."""
    certificate_chain: bytes | None = None
    """Client certificate for servers that ask for one; needs `private_key`."""
    private_key: bytes | None = None
    """Private key of the client certificate; needs `certificate_chain`."""
    server_name: str | None = None
    """Name in the server's certificate, if it differs from the address."""

    def __post_init__(self) -> None:
        if (self.certificate_chain is None) != (self.private_key is None):
            raise ValueError("certificate_chain and private_key go together: give both or neither")
