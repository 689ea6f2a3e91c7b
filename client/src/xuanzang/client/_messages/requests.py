"""Conversion of arguments to protobuf requests."""

from __future__ import annotations

import dataclasses
import difflib
import enum
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, Unpack

from google.protobuf.message import Message

from xuanzang.client._errors import FieldViolation, InvalidRequestError, StatusCode
from xuanzang.client._values.options import ProtectedPattern
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.values.options import Glossary, TranslateOptions
from xuanzang.values.provenance import SamplingOptions

GlossaryNaming = TypeVar("GlossaryNaming", pb.ListGlossaryEntriesRequest, pb.DeleteGlossaryRequest)

_CONTENT_FORMATS: Mapping[str, pb.ContentFormat.ValueType] = MappingProxyType(
    {"text": pb.CONTENT_FORMAT_TEXT, "html": pb.CONTENT_FORMAT_HTML, "xml": pb.CONTENT_FORMAT_XML}
)
_FAMILY = "PLACEHOLDER_FAMILY_"
SWITCHES = frozenset(
    {
        *("return_alternatives", "return_scores", "token_details", "return_quality", "return_provenance"),
        "pass_through_unserved",
        "allow_pivot",
    }
)
"""Options that select the results; on the wire they are next to the search options."""
_CODES = frozenset({"source_language", "target_language", "model"})
_KINDS = {int: "an int", float: "a number", bool: "a bool", str: "a str"}


def translate_request(texts: Sequence[str], **options: Unpack[TranslateOptions]) -> pb.TranslateTextRequest:
    """Build the request for a list of texts.

    Raises:
        InvalidRequestError: A value cannot be written on the wire.
        TypeError: A lone text instead of a sequence, a value of the wrong type, or an unknown option.
    """
    if isinstance(texts, str | bytes):
        raise TypeError("texts is a sequence of str; for a single text call translate_one")
    settings = translation_settings(**options)
    return pb.TranslateTextRequest(contents=_checked(texts, path="contents"), settings=settings)


def translation_settings(**options: Unpack[TranslateOptions]) -> pb.TranslationSettings:
    """Build the settings, which all requests for translations share.

    Raises:
        InvalidRequestError: A value cannot be written on the wire.
        TypeError: A value of the wrong type, or an unknown option.
    """
    require_known(options, TranslateOptions.__optional_keys__)
    chosen: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    for name in _CODES & chosen.keys():
        _check_text(chosen[name], path=name)
    settings = pb.TranslationSettings(
        source_language_code=chosen.pop("source_language", ""),
        target_language_code=chosen.pop("target_language", ""),
        model=chosen.pop("model", ""),
    )
    if "content_format" in chosen:
        settings.content_format = _content_format(chosen.pop("content_format"))
    _add_terms(settings, chosen)
    settings.placeholders.extend(_families(chosen.pop("placeholders", ())))
    for name in SWITCHES & chosen.keys():
        _set(settings, name, chosen.pop(name), path=name)
    for name, value in chosen.items():
        _set_option(settings.options, name, value)
    return settings


def require_known(options: Mapping[str, object], known: Collection[str], *, kind: str = "option") -> None:
    """Refuse options that there are not.

    Raises:
        TypeError: One is unknown; the message names it and the nearest known one.
    """
    for name in sorted(options.keys() - known):
        near = difflib.get_close_matches(name, [*sorted(known), "timeout"], n=1)
        raise TypeError(f"no such {kind}: {name}" + (f"; did you mean {near[0]}?" if near else ""))


def stream_request(settings: pb.TranslationSettings, *, index: int, text: str) -> pb.StreamTranslateTextRequest:
    """Build the message for one text of a stream.

    Raises:
        InvalidRequestError: The text cannot be written on the wire.
    """
    _check_text(text, path="content")
    return pb.StreamTranslateTextRequest(id=str(index), content=text, settings=settings)


def progressive_request(text: str, **options: Unpack[TranslateOptions]) -> pb.TranslateTextProgressivelyRequest:
    """Build the request for a progressive translation.

    Raises:
        InvalidRequestError: A value cannot be written on the wire.
        TypeError: A value of the wrong type, or an unknown option.
    """
    _check_text(text, path="content")
    return pb.TranslateTextProgressivelyRequest(content=text, settings=translation_settings(**options))


def detection_request(texts: Sequence[str]) -> pb.DetectLanguageRequest:
    """Build the request for the languages of texts.

    Raises:
        InvalidRequestError: A text cannot be written on the wire.
        TypeError: A lone text instead of a sequence, or an element that is no str.
    """
    if isinstance(texts, str | bytes):
        raise TypeError("texts is a sequence of str: give a list of one for a single text")
    return pb.DetectLanguageRequest(contents=_checked(texts, path="contents"))


def explanation_options(text: str, **options: Unpack[TranslateOptions]) -> pb.ExplainTranslationRequest:
    """Build the request for an explanation, without the requested attention.

    Args:
        options: Languages, model and options of the search.

    Raises:
        InvalidRequestError: A value cannot be written on the wire.
        TypeError: A value of the wrong type, or an unknown option.
    """
    _check_text(text, path="content")
    return pb.ExplainTranslationRequest(content=text, settings=translation_settings(**options))


def create_glossary(
    name: str, entries: Glossary, *, languages: tuple[str, str], version: str, display_name: str, replace: bool
) -> pb.CreateGlossaryRequest:
    """Build the request to store a glossary.

    Args:
        entries: Translations by term.
        languages: Codes of the languages of terms and translations.
        version: Version that its author gives it.
        replace: Whether it takes the place of another one.

    Raises:
        InvalidRequestError: A text cannot be written on the wire.
        TypeError: A text is no str.
    """
    texts = {"name": name, "version": version, "display_name": display_name}
    texts |= dict(zip(("source_language_code", "target_language_code"), languages, strict=True))
    for field, text in texts.items():
        _check_text(text, path=field)
    return pb.CreateGlossaryRequest(entries=_entries(entries, path="entries"), replace=replace, **texts)


def named_glossary(kind: type[GlossaryNaming], name: str) -> GlossaryNaming:
    """Build a request that only names a glossary.

    Raises:
        InvalidRequestError: The name cannot be written on the wire.
        TypeError: It is no str.
    """
    _check_text(name, path="name")
    return kind(name=name)


def repeatable_request(
    settings: pb.TranslationSettings, text: str, provenance: pb.Provenance
) -> pb.TranslateTextRequest:
    """Build the request that reproduces one answer: by the same model, with the same draws.

    A translation by two models names its languages, because a request names one model at most.

    Args:
        provenance: How its translation was made.
    """
    request = pb.TranslateTextRequest(contents=[text], settings=settings)
    if not provenance.HasField("pivot"):
        request.settings.model = f"{provenance.model}/{provenance.model_version}"
    request.settings.target_language_code = provenance.settings.target_language_code
    if request.settings.options.HasField("sampling"):
        request.settings.options.sampling.seed = provenance.settings.options.sampling.seed
    return request


def progressively(request: pb.TranslateTextRequest) -> pb.TranslateTextProgressivelyRequest:
    """Build the request for a progressive translation of the only text of another request."""
    return pb.TranslateTextProgressivelyRequest(content=request.contents[0], settings=request.settings)


def _add_terms(settings: pb.TranslationSettings, chosen: dict[str, Any]) -> None:
    """Take the terms to keep out of the keyword arguments."""
    settings.glossary_entries.extend(_entries(chosen.pop("glossary", {}), path="glossary_entries"))
    name = chosen.pop("glossary_name", "")
    _check_text(name, path="glossary")
    settings.glossary = name
    patterns = chosen.pop("protected_patterns", ())
    if isinstance(patterns, str):
        raise TypeError("protected_patterns is a sequence of patterns")
    settings.protected_patterns.extend(_pattern(pattern) for pattern in patterns)


def _entries(glossary: Glossary, *, path: str) -> Iterator[pb.GlossaryEntry]:
    for number, (source, targets) in enumerate(dict(glossary).items()):
        _check_text(source, path=f"{path}[{number}].source")
        each = [targets] if isinstance(targets, str) else targets
        yield pb.GlossaryEntry(source=source, targets=_checked(each, path=f"{path}[{number}].targets"))


def _pattern(pattern: ProtectedPattern | str) -> pb.ProtectedPattern.ValueType:
    known = {each.name.lower(): each for each in ProtectedPattern}
    found = pattern if isinstance(pattern, ProtectedPattern) else known.get(pattern.lower())
    if found is None:
        raise invalid("protected_patterns", f"has {pattern!r}, which is none of {', '.join(list(known)[1:])}")
    return pb.ProtectedPattern.ValueType(found.value)


def _families(names: Sequence[enum.Enum | str]) -> Iterator[pb.PlaceholderFamily.ValueType]:
    if isinstance(names, str):
        raise TypeError("placeholders is a sequence of families")
    known = {name.removeprefix(_FAMILY).lower(): number for name, number in pb.PlaceholderFamily.items() if number}
    for family in names:
        name = str(family.value if isinstance(family, enum.Enum) else family)
        if name not in known:
            raise invalid("placeholders", f"has {name!r}, which is none of {', '.join(known)}")
        yield known[name]


def _content_format(name: object) -> pb.ContentFormat.ValueType:
    if not isinstance(name, str):
        raise TypeError(f"content_format is a {type(name).__name__}, not a str")
    if name not in _CONTENT_FORMATS:
        raise invalid("content_format", f"must be one of {', '.join(_CONTENT_FORMATS)}")
    return _CONTENT_FORMATS[name]


def _set_option(options: pb.DecodingOptions, name: str, value: Any) -> None:
    path = f"options.{name}"
    if name == "suppressed_texts":
        if isinstance(value, str | bytes):
            raise TypeError(f"{name} is a sequence of str")
        options.suppressed_texts.extend(_checked(value, path=path))
    elif name == "sampling":
        _set_sampling(options.sampling, value, path=path)
    else:
        _set(options, name, value, path=path)


def _set_sampling(message: pb.SamplingOptions, sampling: SamplingOptions, *, path: str) -> None:
    # Present even if empty: SamplingOptions() means sampling with the defaults.
    message.SetInParent()
    for name, value in dataclasses.asdict(sampling).items():
        if value is not None:
            _set(message, name, value, path=f"{path}.{name}")


def _set(message: Message, name: str, value: Any, *, path: str) -> None:
    if isinstance(value, str):
        _check_text(value, path=path)
    try:
        setattr(message, name, value)
    except ValueError as error:  # outside 32 bits; the server checks every narrower range
        raise invalid(path, f"is out of range: {value}") from error
    except TypeError as error:
        wanted = _KINDS.get(type(getattr(message, name)), "another type")
        raise TypeError(f"{path} is a {type(value).__name__}, not {wanted}") from error


def _checked(texts: Sequence[str], *, path: str) -> Sequence[str]:
    checked = list(texts)
    for index, text in enumerate(checked):
        _check_text(text, path=f"{path}[{index}]")
    return checked


def _check_text(text: str, *, path: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"{path} is a {type(text).__name__}, not a str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise invalid(path, f"is no valid Unicode text: {error.reason} at position {error.start}") from error


def invalid(path: str, description: str) -> InvalidRequestError:
    """Return the error of a value that cannot be written on the wire."""
    violation = FieldViolation(field=path, description=description)
    return InvalidRequestError(f"{path} {description}", code=StatusCode.INVALID_ARGUMENT, violations=(violation,))
