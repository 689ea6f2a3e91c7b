"""Models that translate: frozen values without gRPC or protobuf types."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingDefaults:
    """Values of the options that a call leaves out; None for options that are off or depend on the text."""

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
    """A model that translates."""

    name: str
    """Name for the option `model`, such as "zh-en"."""
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
    """True if calls that name no version get this one."""
    defaults: DecodingDefaults
    """Values of the options that a call leaves out."""
    max_source_length: int
    """Maximum number of source tokens per sentence; a longer one is cut, or refused with `refuse_long_sentences`."""
    max_target_length: int
    """Maximum number of target tokens per sentence, end token counted."""
    max_content_characters: int = 0
    """Maximum number of characters of a text; 0 if the server does not say."""
    licence: str = ""
    """Licence of the weights as their publisher states it, such as "cc-by-4.0"; empty if unknown."""
    source_model: str = ""
    """The published model that it was made from, such as "Helsinki-NLP/opus-mt-zh-en"; empty if there is none."""
    residency: str = ""
    """Place of its weights: "loaded" in memory, "loading", "on_demand", so that the next call loads them, or "failing"
    if the last call could not; empty if the server does not say."""
    residency_since: float = 0.0
    """Time since when they are there, in seconds since 1970; 0 if the server does not say."""
    residency_fault: str = ""
    """Reason why they could not be loaded the last time; empty unless `residency` is "failing"."""
    pivoted_source_languages: tuple[str, ...] = ()
    """Languages that the server translates into this model's through `pivot_language`, by two models, where no model
    does so directly."""
    pivot_language: str = ""
    """Language that those pairs go through; empty if there are none."""
