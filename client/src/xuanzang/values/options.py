"""Options of translations, which methods of clients and of translation in one process take alike."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict

from xuanzang.values.provenance import SamplingOptions

Glossary: TypeAlias = Mapping[str, str | Sequence[str]]
"""Translations of terms, by term."""

ContentFormat = Literal["text", "html", "xml"]
"""Format of texts and their translations."""


class ExplainOptions(TypedDict, total=False):
    """Keyword arguments of `explain`, which those of `translate` contain; the others have no explanation."""

    source_language: str | None
    """BCP-47 code of the texts' language, such as "zh"; if left out, it is detected where there is a choice."""
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
    """Minimum number of target tokens per sentence, end token not counted; at most 64 or what the source justifies."""
    max_target_length: int | None
    """Maximum number of target tokens per sentence, end token counted."""
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


class TranslateOptions(ExplainOptions, total=False):
    """Keyword arguments of every translate method; those left out or None have the default of the server or model."""

    return_scores: bool | None
    """True if hypotheses carry their score."""
    sampling: SamplingOptions | None
    """Settings for drawing tokens at random instead of searching; several hypotheses are several draws."""
    return_alternatives: bool | None
    """True if the hypotheses differ in the token right after `target_prefix`, each continued by its own search."""
    token_details: bool | None
    """True if hypotheses carry their tokens with scores and source spans."""
    partial_on_deadline: bool | None
    """True to answer shortly before the timeout with the best hypotheses so far, finish reason DEADLINE; without
    effect in `translate_stream`, whose texts have no timeout of their own."""
    refuse_long_sentences: bool | None
    """True if a sentence of more tokens than the model takes, and without comma or white space, is refused, not cut."""
    content_format: ContentFormat | None
    """Format of texts: "text", the default, or "html" or "xml", whose tags the translation has around the
    same words; not with `token_details`."""
    return_provenance: bool | None
    """True if translations say how they were made; those of a server can be kept as replay capsules."""
    glossary: Glossary | None
    """Terms to keep, such as {"源": "spring"}, at most 1000: each with one translation or a sequence of them, one of
    which every hypothesis holds where the term occurs. Not together with `sampling` nor with a `beam_size` of 1."""
    glossary_name: str | None
    """Stored glossary whose terms are kept as well: of a server, as listed by `list_glossaries`, or else one in the
    folder of the models."""
    protected_patterns: Sequence[enum.Enum | str] | None
    """Kinds of text that are not translated, such as "url" or `ProtectedPattern.URL`; the rules of `glossary` hold."""
    placeholders: Sequence[enum.Enum | str] | None
    """Families of placeholders that are carried through the translation, each once and unchanged: "printf", "braces",
    "icu", "templates", "tags", "variables", "addresses", "files", "identifiers", "handles", "code". A document has
    those of its format unless they are given. A text that would lose one is answered unchanged, finish reason
    PLACEHOLDER_LOST. Not with `token_details` or `target_prefix`."""
    return_quality: bool | None
    """True if hypotheses say how far to trust them; only of models that have a quality head."""
    pass_through_unserved: bool | None
    """True if a text in a detected language that no model translates is answered unchanged (UNSERVED_LANGUAGE),
    instead of UnservedLanguageError; without effect if `source_language` is set."""
    allow_pivot: bool | None
    """Whether two models may translate a pair of languages that no model translates, through a language that the server
    is set to; left out: yes, where it has one. All search options but `beam_size` and `refuse_long_sentences` are then
    those of the second model."""
