"""The settings of a request that options of translations mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from google.protobuf.message import Message

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.text.types import PlaceholderFamily, ProtectedPattern
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.values.options import TranslateOptions

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
    if name in ("suppressed_texts", "protected_patterns", "placeholders") and isinstance(value, str | bytes):
        raise TypeError("it is a sequence")
    if name == "protected_patterns":
        return [pb.ProtectedPattern.Value(f"PROTECTED_PATTERN_{_pattern(each).name}") for each in value]
    if name == "placeholders":
        return [pb.PlaceholderFamily.Value(f"PLACEHOLDER_FAMILY_{_family(each).name}") for each in value]
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
    """A value that no field can hold; the message names the range."""


def _pattern(pattern: ProtectedPattern | str) -> ProtectedPattern:
    try:
        return ProtectedPattern(pattern.lower() if isinstance(pattern, str) else pattern)
    except ValueError:
        known = ", ".join(each.value for each in ProtectedPattern)
        raise _OptionError(f"has {pattern!r}, which is none of {known}") from None


def _family(family: PlaceholderFamily | str) -> PlaceholderFamily:
    try:
        return PlaceholderFamily(family)
    except ValueError:
        known = ", ".join(each.value for each in PlaceholderFamily)
        raise _OptionError(f"has {family!r}, which is none of {known}") from None


def _value_fault(error: ValueError, value: object) -> str:
    if isinstance(error, _OptionError):
        return str(error)
    return unicode_fault(error) if isinstance(error, UnicodeEncodeError) else f"is out of range: {value!r}"


def unicode_fault(error: UnicodeEncodeError) -> str:
    """Say why a text is not valid Unicode."""
    return f"is no valid Unicode text: {error.reason} at position {error.start}"
