"""Options of translations in one process, with the names that the SDK gives them; and the settings that they mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypedDict

from google.protobuf.message import Message

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.types import ProtectedPattern
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.values.provenance import SamplingOptions

ContentFormat = Literal["text", "html", "xml"]
"""Format of texts and their translations."""

Glossary: TypeAlias = Mapping[str, str | Sequence[str]]
"""Translations of terms, by term."""


class TranslateOptions(TypedDict, total=False):
    """Keyword arguments of every translate method; those left out or None have the default of the model."""

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
    return_scores: bool | None
    """True if hypotheses carry their score."""
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
    """True if the hypotheses differ in the token right after `target_prefix`, each continued by a search of its own."""
    token_details: bool | None
    """True if hypotheses carry their tokens with scores and source spans."""
    partial_on_deadline: bool | None
    """True to answer shortly before the timeout with the best hypotheses so far, finish reason DEADLINE."""
    refuse_long_sentences: bool | None
    """True if a sentence of more tokens than the model takes, and without comma or white space, is refused, not cut."""
    content_format: ContentFormat | None
    """Format of texts: "text", the default, or "html" or "xml", whose tags the translation has around the
    same words; not with `token_details`."""
    return_provenance: bool | None
    """True if translations say how they were made."""
    glossary: Glossary | None
    """Terms to keep, such as {"源": "spring"}, at most 1000: each with one translation or a sequence of them, one of
    which every hypothesis holds where the term occurs. Not together with `sampling` nor with a `beam_size` of 1."""
    glossary_name: str | None
    """Glossary in the folder of the models whose terms are kept as well."""
    protected_patterns: Sequence[ProtectedPattern | str] | None
    """Kinds of text that are not translated, such as "url"; the rules of `glossary` hold."""
    return_quality: bool | None
    """True if hypotheses say how far to trust them; only of models that have a quality head."""
    pass_through_unserved: bool | None
    """True if a text whose detected language no model translates is answered as it is, finish reason UNSERVED_LANGUAGE,
    instead of UnservedLanguageError; without effect if `source_language` is set."""


# Names of options that the wire calls otherwise.
_WIRE_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "source_language": "source_language_code",
        "target_language": "target_language_code",
        "glossary": "glossary_entries",
        "glossary_name": "glossary",
    }
)


def settings_of(options: TranslateOptions) -> pb.TranslationSettings:
    """Write options as the settings that requests have, which the server checks.

    Raises:
        InvalidInputError: Values do not fit into their fields; the error names all of them.
        TypeError: A value of the wrong type, or an unknown option.
    """
    if unknown := options.keys() - TranslateOptions.__optional_keys__:
        raise TypeError(f"no such option: {', '.join(sorted(unknown))}")
    settings, faults = pb.TranslationSettings(), []
    for name, value in options.items():
        if value is None:
            continue
        field = _WIRE_NAMES.get(name, name)
        is_setting = field in pb.TranslationSettings.DESCRIPTOR.fields_by_name
        message: Message = settings if is_setting else settings.options
        try:
            message.MergeFrom(type(message)(**{field: _wire_value(name, value)}))
        except TypeError as error:
            raise TypeError(f"{name} is of the wrong type, {type(value).__name__}: {error}") from error
        except ValueError as error:
            path = field if is_setting else f"options.{field}"
            faults.append(FieldViolation(field=path, description=_value_fault(error, value)))
    if faults:
        raise InvalidInputError(faults)
    return settings


def _wire_value(name: str, value: Any) -> Any:
    if name in ("suppressed_texts", "protected_patterns") and isinstance(value, str | bytes):
        raise TypeError("it is a sequence")
    if name == "protected_patterns":
        return [pb.ProtectedPattern.Value(f"PROTECTED_PATTERN_{_pattern(each).name}") for each in value]
    if name == "content_format":
        if value not in ("text", "html", "xml"):
            raise _OptionError("must be one of text, html, xml")
        return f"CONTENT_FORMAT_{value.upper()}"
    if name == "sampling":
        return pb.SamplingOptions(**dataclasses.asdict(value))
    if name == "glossary":
        if not isinstance(value, Mapping):
            raise TypeError("it is a mapping")
        pairs = ((source, [each] if isinstance(each, str) else each) for source, each in value.items())
        return [pb.GlossaryEntry(source=source, targets=targets) for source, targets in pairs]
    return value


class _OptionError(ValueError):
    """A value that no field can hold; the message says what one can."""


def _pattern(pattern: ProtectedPattern | str) -> ProtectedPattern:
    try:
        return ProtectedPattern(pattern.lower() if isinstance(pattern, str) else pattern)
    except ValueError:
        known = ", ".join(each.value for each in ProtectedPattern)
        raise _OptionError(f"has {pattern!r}, which is none of {known}") from None


def _value_fault(error: ValueError, value: object) -> str:
    if isinstance(error, _OptionError):
        return str(error)
    return unicode_fault(error) if isinstance(error, UnicodeEncodeError) else f"is out of range: {value!r}"


def unicode_fault(error: UnicodeEncodeError) -> str:
    """Say why a text is not valid Unicode."""
    return f"is no valid Unicode text: {error.reason} at position {error.start}"
