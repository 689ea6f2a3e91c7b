"""Provenance of a translation: frozen values, and the messages that they are read from."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.values.reading import value_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """Settings of random sampling; those left out or None have the default of the model."""

    top_k: int | None = None
    """Number of most likely tokens to draw from, 1 to 256; None: 256."""
    top_p: float | None = None
    """Probability that the most likely of these tokens must reach together, above 0 to 1; None: 1, all of them."""
    temperature: float | None = None
    """Divisor of log-probabilities, above 0 to 10: below 1 favours likely tokens, above 1 rare ones; None: 1."""
    seed: int | None = None
    """Seed, 0 to 2147483647; equal requests with equal seeds give equal draws. None: a new one for every request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveOptions:
    """Options of the search that were in effect; texts among them are not repeated."""

    beam_size: int
    num_hypotheses: int
    length_penalty: float
    min_target_length: int
    max_target_length: int | None
    """Maximum number of target tokens per sentence; None: it depends on the sentence, `SentenceProvenance` has it."""
    return_scores: bool
    coverage_penalty: float
    repetition_penalty: float
    no_repeat_ngram_size: int
    sampling: SamplingOptions | None
    """Settings of the draws, with the seed in use, chosen or drawn; None: nothing was drawn."""
    return_alternatives: bool
    token_details: bool
    partial_on_deadline: bool
    refuse_long_sentences: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceProvenance:
    """Search of one sentence of a text."""

    sentence_index: int
    """Index of the sentence among those of the text, counted from 0."""
    worker: int
    """Number of the server's worker, counted from 0."""
    batch_sentences: int
    """Sentences that the worker decoded with the model in one batch when this one had joined, itself included. No
    answer depends on them."""
    queue_milliseconds: float
    """Wait in the queue."""
    encode_milliseconds: float
    """Time to encode it, together with the sentences that joined with it."""
    decode_milliseconds: float
    """Time in the batch after that."""
    steps: int
    """Steps of the decoder, those of all searches."""
    searches: int
    """Searches made: 1, and one more for a repetition and for terms that a search left out."""
    max_target_length: int
    """Maximum number of target tokens that was in effect, end token counted."""
    source_with_terms: str
    """The sentence as the model read it, with translations in the place of terms; empty if it read the sentence."""
    terms_required: bool
    """True if the best hypothesis is of a search that required the terms."""
    kept_answer: bool
    """True if nothing was searched, because the answer was kept or another call was waiting for it."""
    from_lexicon: bool
    """True if the translation is the one in the bundle's lexicon of first words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pivot:
    """First step of a translation by two models."""

    language: str
    """BCP-47 code of the language that the first model translated into and the second from."""
    model: str
    """Name of the first model."""
    model_version: str
    """Version of that model, such as "1"."""
    manifest_sha256: str = ""
    """Hexadecimal SHA-256 of its bundle's manifest; only in a provenance, as the following fields."""
    precision: str = ""
    """Number format of its weights: "float32", "float16" or "int8"."""
    sentences: tuple[SentenceProvenance, ...] = ()
    """Its searches in the order of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Everything that a translation depends on, and its course.

    Servers with equal models, settings, kernels and processors answer equal requests with equal hypotheses, to the last
    bit.
    """

    method: str
    """Method of the service, such as "TranslateText"; progressive translations are never searched again."""
    model: str
    """Name of the model."""
    model_version: str
    """Version of the model, such as "1"."""
    manifest_sha256: str
    """Hexadecimal SHA-256 of the bundle's manifest; equal digests mean equal bundles."""
    precision: str
    """Number format of the weights: "float32", "float16" or "int8"."""
    target_language_code: str
    """BCP-47 code of the language translated into, as the model spells it."""
    shortlist: bool
    """True if sentences chose only among the pieces of the model's shortlist."""
    execution_provider: str
    """Execution provider of the graphs: "cpu" or "cuda"."""
    kernels: str
    """Instruction set of the kernels, such as "avx2"; "none" without kernels."""
    kernels_reason: str
    """Reason that there are no kernels; empty with kernels."""
    server_version: str
    """Version of the server."""
    onnxruntime_version: str
    """Version of its onnxruntime."""
    options: EffectiveOptions
    """Options in effect."""
    sentences: tuple[SentenceProvenance, ...]
    """Searches in the order of the text; several of a sentence with `sampling` or `return_alternatives`."""
    pivot: Pivot | None = None
    """First of two models, whose sentences this one read; None for one model."""


def provenance_of(message: pb.Provenance) -> Provenance:
    """Read how a translation was made."""
    settings = message.settings
    language, options = settings.target_language_code, _effective(settings)
    return value_of(Provenance, message, target_language_code=language, options=options, pivot=pivot_of(message))


def pivot_of(message: pb.Translation | pb.Provenance) -> Pivot | None:
    """Read the first step of a translation by two models."""
    return value_of(Pivot, message.pivot, language=message.pivot.language_code) if message.HasField("pivot") else None


def _effective(settings: pb.TranslationSettings) -> EffectiveOptions:
    names = {field.name for field in dataclasses.fields(EffectiveOptions)} & set(settings.DESCRIPTOR.fields_by_name)
    beside = {name: getattr(settings, name) for name in names}
    return value_of(EffectiveOptions, settings.options, **beside)
