"""Answers of the translation service in Google's messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from babel import Locale
from google.cloud.translate_v3.types import translation_service as types

from xuanzang.server.rpc.faces.google.display_names import display_name
from xuanzang.server.rpc.faces.google.names import resource_name
from xuanzang.translation.v1 import translation_pb2 as pb

TranslateTextResponse = types.TranslateTextResponse.pb()
Translation = types.Translation.pb()
DetectLanguageResponse = types.DetectLanguageResponse.pb()
DetectedLanguage = types.DetectedLanguage.pb()
SupportedLanguages = types.SupportedLanguages.pb()
SupportedLanguage = types.SupportedLanguage.pb()

_UNDETERMINED = "und"


def translation_response(parent: str, answer: pb.TranslateTextResponse, glossary: str = "") -> Any:
    """Write the translations of texts: the best hypothesis of each.

    Args:
        parent: Valid name of the caller's project.
        answer: Answer of the translation service.
        glossary: Resource of the glossary that it has kept, or nothing. Google lists translations without it as well;
            here both lists hold those with it, because a second translation would double the cost.

    Returns:
        google.cloud.translation.v3.TranslateTextResponse.
    """
    model = resource_name(parent, f"{answer.model}/{answer.model_version}")
    plain = [_translation(each, model=model) for each in answer.translations]
    if not glossary:
        return TranslateTextResponse(translations=plain)
    config = {"glossary": glossary}
    kept = [_translation(each, model=model, glossary_config=config) for each in answer.translations]
    return TranslateTextResponse(translations=plain, glossary_translations=kept)


def _translation(translation: pb.Translation, **fields: Any) -> Any:
    return Translation(
        translated_text=translation.hypotheses[0].text,
        detected_language_code=translation.detected_language_code,
        **fields,
    )


def detection_response(detection: pb.LanguageDetection) -> Any:
    """Write the languages that a text may be in; there is always one, "und" if nothing says which.

    Args:
        detection: Languages of the text, likeliest first.

    Returns:
        google.cloud.translation.v3.DetectLanguageResponse.
    """
    found = [
        DetectedLanguage(
            language_code=language.language_code,
            confidence=language.confidence,
        )
        for language in detection.languages
    ]
    return DetectLanguageResponse(languages=found or [DetectedLanguage(language_code=_UNDETERMINED)])


def languages_response(models: Iterable[pb.Model], locale: Locale | None) -> Any:
    """Write the languages that models translate from and into.

    Args:
        models: Models that the caller may use.
        locale: Language to name them in; None for codes alone.

    Returns:
        google.cloud.translation.v3.SupportedLanguages, sorted by code.
    """
    listed = list(models)
    sources = {code for model in listed for code in model.source_language_codes}
    targets = {code for model in listed for code in model.target_language_codes}
    return SupportedLanguages(
        languages=[
            SupportedLanguage(
                language_code=code,
                display_name=display_name(code, locale),
                support_source=code in sources,
                support_target=code in targets,
            )
            for code in sorted(sources | targets)
        ]
    )
