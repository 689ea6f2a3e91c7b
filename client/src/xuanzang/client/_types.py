"""What callers give and get: frozen values, free of gRPC and protobuf types."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypedDict

from xuanzang.client._errors import TranslationError


class TranslateOptions(TypedDict, total=False):
    """Keyword arguments that every translate method takes; what is left out or None is the server's default."""

    source_language: str | None
    """BCP-47 code of the texts' language, such as "zh"."""
    target_language: str | None
    """BCP-47 code of the language to translate into, such as "en"."""
    model: str | None
    """Name of a model, as `list_models` gives it."""
    beam_size: int | None
    """Hypotheses kept per sentence at each step, 1 to 16; 1 is greedy search."""
    num_hypotheses: int | None
    """Hypotheses returned per text, 1 to `beam_size`; more than 1 only for texts of a single sentence."""
    length_penalty: float | None
    """Exponent on the target length that divides the summed log-probability, 0 to 10; 0 is none."""
    min_target_length: int | None
    """Least number of target tokens per sentence, the end token not counted."""
    max_target_length: int | None
    """Most target tokens per sentence, the end token counted."""
    return_scores: bool | None
    """Whether hypotheses carry their score."""


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
class DecodingDefaults:
    """What a model does where a request leaves an option out; None where that depends on the text."""

    beam_size: int | None
    num_hypotheses: int | None
    length_penalty: float | None
    min_target_length: int | None
    max_target_length: int | None


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
