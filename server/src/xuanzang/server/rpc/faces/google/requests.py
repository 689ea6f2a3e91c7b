"""Requests of Google's messages as those of the translation service. What they ask in vain is refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.rpc.faces.google.names import (
    detector_violations,
    model_violations,
    parent_violations,
    served_name,
    stored_name,
)
from xuanzang.translation.v1 import translation_pb2 as pb

MAX_LABELS = 64
MAX_LABEL_CHARACTERS = 63

_PLAIN, _HTML = "text/plain", "text/html"
# Google, too, takes texts without a MIME type for HTML.
_FORMATS: Mapping[str, pb.ContentFormat.ValueType] = MappingProxyType(
    {_PLAIN: pb.CONTENT_FORMAT_TEXT, _HTML: pb.CONTENT_FORMAT_HTML, "": pb.CONTENT_FORMAT_HTML}
)


def read_translation(request: Any) -> pb.TranslateTextRequest:
    """Read a request for translations.

    Args:
        request: google.cloud.translation.v3.TranslateTextRequest.

    Raises:
        InvalidInputError: It asks for something that the server does not have.
    """
    _require(
        *parent_violations(request.parent),
        *model_violations(request.model),
        *_mime_type_violations(request.mime_type, _FORMATS),
        *_label_violations(request.labels),
        *_unsupported(request),
    )
    glossary = request.glossary_config.glossary
    return pb.TranslateTextRequest(
        contents=request.contents,
        settings=pb.TranslationSettings(
            glossary=stored_name(glossary, field="glossary_config.glossary") if glossary else "",
            model=served_name(request.model),
            source_language_code=request.source_language_code,
            target_language_code=request.target_language_code,
            content_format=_FORMATS[request.mime_type],
        ),
    )


def read_detection(request: Any) -> pb.DetectLanguageRequest:
    """Read a request for the language of a text.

    Args:
        request: google.cloud.translation.v3.DetectLanguageRequest.

    Raises:
        InvalidInputError: It asks for something that the server does not have.
    """
    _require(
        *parent_violations(request.parent),
        *detector_violations(request.model),
        *_mime_type_violations(request.mime_type, _FORMATS),
        *_label_violations(request.labels),
    )
    return pb.DetectLanguageRequest(contents=[request.content])


def require_listable(request: Any) -> None:
    """Check a request for the languages.

    Args:
        request: google.cloud.translation.v3.GetSupportedLanguagesRequest.

    Raises:
        InvalidInputError: A name has another form.
    """
    _require(*parent_violations(request.parent), *model_violations(request.model))


def _require(*violations: FieldViolation) -> None:
    if violations:
        raise InvalidInputError(violations)


def _mime_type_violations(mime_type: str, formats: Mapping[str, object]) -> Iterable[FieldViolation]:
    if mime_type not in formats:
        shown = " or ".join(filter(None, formats))
        yield FieldViolation(field="mime_type", description=f"must be {shown}; left out, it means {_HTML}")


def _label_violations(labels: Mapping[str, str]) -> Iterable[FieldViolation]:
    if len(labels) > MAX_LABELS:
        yield FieldViolation(field="labels", description=f"must have at most {MAX_LABELS} entries, has {len(labels)}")
    if any(len(text) > MAX_LABEL_CHARACTERS for label in labels.items() for text in label):
        description = f"must have keys and values of at most {MAX_LABEL_CHARACTERS} characters"
        yield FieldViolation(field="labels", description=description)


def _unsupported(request: Any) -> Iterable[FieldViolation]:
    for name in ("ignore_case", "contextual_translation_enabled"):
        if getattr(request.glossary_config, name):
            yield FieldViolation(
                field=f"glossary_config.{name}", description="must be unset: terms are found as they are written"
            )
    if request.transliteration_config.enable_transliteration:
        description = "must be unset: this server does not transliterate"
        yield FieldViolation(field="transliteration_config", description=description)
