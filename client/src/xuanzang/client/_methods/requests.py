"""Conversion of arguments to protobuf requests.

All functions raise InvalidRequestError for a value that cannot be written on the wire, and TypeError for a value of the
wrong type, a lone text instead of a sequence, or an unknown option.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Unpack

from google.protobuf.message import Message

from xuanzang.client._errors import FieldViolation, InvalidRequestError, StatusCode
from xuanzang.client._values.explanations import AttentionKind
from xuanzang.translation.v1 import explanation_pb2
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.values.options import ExplainOptions, Glossary, TranslateOptions
from xuanzang.values.provenance import SamplingOptions

_CODES = {"source_language": "source_language_code", "target_language": "target_language_code", "model": "model"}
_KINDS = {int: "an int", float: "a number", bool: "a bool", str: "a str"}


def translate_request(texts: Sequence[str], **options: Unpack[TranslateOptions]) -> pb.TranslateTextRequest:
    """Build the request for a list of texts."""
    if isinstance(texts, str | bytes):
        raise TypeError("texts is a sequence of str; for a single text call translate_one")
    settings = translation_settings(**options)
    return pb.TranslateTextRequest(contents=_checked(texts, path="contents"), settings=settings)


def translation_settings(**options: Unpack[TranslateOptions]) -> pb.TranslationSettings:
    """Build the settings, which all requests for translations share."""
    _require_known(options, TranslateOptions.__optional_keys__)
    chosen: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    settings = pb.TranslationSettings()
    for name, field in _CODES.items():
        setattr(settings, field, checked_text(chosen.pop(name, ""), path=name))
    if "content_format" in chosen:
        settings.content_format = _content_format(chosen.pop("content_format"))
    _add_terms(settings, chosen)
    settings.placeholders.extend(_numbers(pb.PlaceholderFamily, chosen.pop("placeholders", ()), path="placeholders"))
    for name, value in chosen.items():
        if name in pb.TranslationSettings.DESCRIPTOR.fields_by_name:
            _set(settings, name, value, path=name)
        else:
            _set_option(settings.options, name, value)
    return settings


def _require_known(options: Mapping[str, object], known: Collection[str], *, kind: str = "option") -> None:
    """Refuse unknown options; the message names one and the nearest known one."""
    for name in sorted(options.keys() - known):
        near = difflib.get_close_matches(name, [*sorted(known), "timeout"], n=1)
        raise TypeError(f"no such {kind}: {name}" + (f"; did you mean {near[0]}?" if near else ""))


def stream_request(settings: pb.TranslationSettings, *, index: int, text: str) -> pb.StreamTranslateTextRequest:
    """Build the message for one text of a stream."""
    checked_text(text, path="content")
    return pb.StreamTranslateTextRequest(id=str(index), content=text, settings=settings)


def progressive_request(text: str, **options: Unpack[TranslateOptions]) -> pb.TranslateTextProgressivelyRequest:
    """Build the request for a progressive translation."""
    checked_text(text, path="content")
    return pb.TranslateTextProgressivelyRequest(content=text, settings=translation_settings(**options))


def explanation_request(
    text: str,
    *,
    attention_kinds: Sequence[AttentionKind | str],
    attention_layers: Sequence[int],
    attention_heads: bool,
    **options: Unpack[ExplainOptions],
) -> pb.ExplainTranslationRequest:
    """Build the request for an explanation."""
    _require_known(options, ExplainOptions.__optional_keys__, kind="option of an explanation")
    content = checked_text(text, path="content")
    request = pb.ExplainTranslationRequest(content=content, settings=translation_settings(**options))
    request.attention_kinds.extend(_numbers(explanation_pb2.AttentionKind, attention_kinds, path="attention_kinds"))
    try:
        request.attention_layers.extend(attention_layers)
    except ValueError as error:  # outside 32 bits; the server checks the range
        raise _invalid("attention_layers", "is out of range") from error
    request.attention_heads = attention_heads
    return request


def detection_request(texts: Sequence[str]) -> pb.DetectLanguageRequest:
    """Build the request for the languages of texts."""
    if isinstance(texts, str | bytes):
        raise TypeError("texts is a sequence of str: give a list of one for a single text")
    return pb.DetectLanguageRequest(contents=_checked(texts, path="contents"))


def create_glossary(
    name: str, entries: Glossary, *, languages: tuple[str, str], version: str, display_name: str, replace: bool
) -> pb.CreateGlossaryRequest:
    """Build the request to store a glossary.

    Args:
        entries: Translations by term.
        languages: Codes of the languages of terms and translations.
        version: Version that its author gives it.
        replace: Whether it takes the place of another one.
    """
    texts = {"name": name, "version": version, "display_name": display_name}
    texts |= dict(zip(("source_language_code", "target_language_code"), languages, strict=True))
    for field, text in texts.items():
        checked_text(text, path=field)
    return pb.CreateGlossaryRequest(entries=_entries(entries, path="entries"), replace=replace, **texts)


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
    settings.glossary = checked_text(chosen.pop("glossary_name", ""), path="glossary")
    patterns = chosen.pop("protected_patterns", ())
    settings.protected_patterns.extend(_numbers(pb.ProtectedPattern, patterns, path="protected_patterns"))


def _entries(glossary: Glossary, *, path: str) -> Iterator[pb.GlossaryEntry]:
    for number, (source, targets) in enumerate(dict(glossary).items()):
        checked_text(source, path=f"{path}[{number}].source")
        each = [targets] if isinstance(targets, str) else targets
        yield pb.GlossaryEntry(source=source, targets=_checked(each, path=f"{path}[{number}].targets"))


def _numbers(kind: Any, names: Sequence[enum.Enum | str], *, path: str) -> Iterator[Any]:
    """Yield the numbers of values of an enumeration of the wire, which are given by name.

    Args:
        names: Names in any case without the enumeration's own, such as "url", or members of an enumeration with them.
    """
    if isinstance(names, str):
        raise TypeError(f"{path} is a sequence of names")
    numbers = _known(kind)
    for each in names:
        name = each if isinstance(each, str) else each.value if isinstance(each.value, str) else each.name
        number = {"unspecified": 0, **numbers}.get(name.lower())
        if number is None:
            raise _invalid(path, f"has {name!r}, which is none of {', '.join(numbers)}")
        yield number


def _known(kind: Any) -> dict[str, int]:
    prefix = kind.Name(0).removesuffix("UNSPECIFIED")
    return {name.removeprefix(prefix).lower(): number for name, number in kind.items() if number}


def _content_format(name: object) -> Any:
    if not isinstance(name, str):
        raise TypeError(f"content_format is a {type(name).__name__}, not a str")
    formats = _known(pb.ContentFormat)
    if name not in formats:
        raise _invalid("content_format", f"must be one of {', '.join(formats)}")
    return formats[name]


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
        checked_text(value, path=path)
    try:
        setattr(message, name, value)
    except ValueError as error:  # outside 32 bits; the server checks every narrower range
        raise _invalid(path, f"is out of range: {value}") from error
    except TypeError as error:
        wanted = _KINDS.get(type(getattr(message, name)), "another type")
        raise TypeError(f"{path} is a {type(value).__name__}, not {wanted}") from error


def _checked(texts: Sequence[str], *, path: str) -> Sequence[str]:
    return [checked_text(text, path=f"{path}[{index}]") for index, text in enumerate(texts)]


def checked_text(text: str, *, path: str) -> str:
    """Return a text, if it is valid Unicode."""
    if not isinstance(text, str):
        raise TypeError(f"{path} is a {type(text).__name__}, not a str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _invalid(path, f"is no valid Unicode text: {error.reason} at position {error.start}") from error
    return text


def _invalid(path: str, description: str) -> InvalidRequestError:
    """Return the error of a value that cannot be written on the wire."""
    violation = FieldViolation(field=path, description=description)
    return InvalidRequestError(f"{path} {description}", code=StatusCode.INVALID_ARGUMENT, violations=(violation,))
