"""Google Cloud Translation v3: its messages, which are those of google-cloud-translate, and what its calls do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from google.cloud.translate_v3.types import translation_service as types
from google.longrunning.operations_pb2 import Operation

from xuanzang.client import (
    ContentFormat,
    FieldViolation,
    StatusCode,
    StoredGlossary,
    TranslateOptions,
    TranslationError,
)
from xuanzang.gateway.apis.google.names import (
    Languages,
    detector_violations,
    display_names,
    glossary_resource,
    model_resource,
    model_violations,
    page_of,
    parent_violations,
    served_model,
    stored_glossary,
)
from xuanzang.gateway.entry.endpoints import BaseCall
from xuanzang.gateway.entry.parameters import UNSERVED, checked_texts, unserved
from xuanzang.gateway.errors import RefusedError, bad_request, fault_of, invalid, not_found
from xuanzang.gateway.languages import source_for
from xuanzang.gateway.translation import Translated, TranslationJob, translate

MAX_LABELS = 64
MAX_LABEL_CHARACTERS = 63
_UNDETERMINED = "und"
# Google, too, takes texts without a MIME type for HTML.
_FORMATS: Mapping[str, ContentFormat] = MappingProxyType({"text/plain": "text", "text/html": "html", "": "html"})
_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "content_format": "mime_type",
        "glossary": "glossary_config.glossary",
        "options": "model",
        "pass_through_unserved": "labels.pass_through_unserved",
    }
)


class GoogleV3:
    """Implementation of the calls, from message to message."""

    def __init__(self, *, max_texts: int) -> None:
        """Remember the limits.

        Args:
            max_texts: Maximum number of texts in a request.
        """
        self._max_texts = max_texts

    async def translate_text(self, request: Any, call: BaseCall) -> Any:
        """Answer TranslateText."""
        _require(
            *parent_violations(request.parent),
            *model_violations(request.model),
            *_mime_type_violations(request.mime_type),
            *_label_violations(request.labels),
            *_unsupported(request),
        )
        texts = list(checked_texts(request.contents, field="contents", maximum=self._max_texts))
        if not request.target_language_code:
            raise bad_request("target_language_code", "must be given")
        glossary = request.glossary_config.glossary
        options = TranslateOptions(
            content_format=_FORMATS[request.mime_type],
            model=served_model(request.model) or None,
            glossary_name=stored_glossary(glossary, field="glossary_config.glossary") if glossary else None,
        )
        # Of all parts of a request, only labels may have names that Google does not know.
        options |= unserved(request.labels.get(UNSERVED), field=f"labels.{UNSERVED}")
        job = TranslationJob(
            texts=texts,
            source=request.source_language_code or None,
            target=request.target_language_code,
            options=options,
        )
        with google_names():
            results = await translate(call, job)
        return _text_response(request, job, results)

    async def detect_language(self, request: Any, call: BaseCall) -> Any:
        """Answer DetectLanguage: there is always a language, "und" if nothing says which."""
        _require(
            *parent_violations(request.parent),
            *detector_violations(request.model),
            *_mime_type_violations(request.mime_type),
            *_label_violations(request.labels),
        )
        if not request.content:
            raise bad_request("content", "must be given")
        with google_names({"contents[0]": "content"}):
            (found,) = await call.client.detect_languages([request.content], timeout=call.seconds)
        listed = Languages(await call.client.list_models(timeout=call.seconds)).all if found else []
        detected = types.DetectedLanguage.pb()
        languages = [
            detected(language_code=source_for(each.code, listed) or each.code, confidence=each.confidence)
            for each in found
        ]
        return types.DetectLanguageResponse.pb()(languages=languages or [detected(language_code=_UNDETERMINED)])

    async def supported_languages(self, request: Any, call: BaseCall) -> Any:
        """Answer GetSupportedLanguages."""
        _require(*parent_violations(request.parent), *model_violations(request.model))
        models, wanted = await call.client.list_models(timeout=call.seconds), served_model(request.model)
        chosen = [each for each in models if wanted in ("", each.name, f"{each.name}/{each.version}")]
        if wanted and not chosen:
            raise not_found(f"model {wanted!r} is not served")
        # A named model translates its own pairs alone.
        languages = Languages([replace(each, pivoted_source_languages=()) for each in chosen] if wanted else models)
        naming = request.display_language_code
        names = display_names(languages.all, naming, field="display_language_code") if naming else {}
        return types.SupportedLanguages.pb()(
            languages=[
                types.SupportedLanguage.pb()(
                    language_code=code,
                    display_name=names.get(code, ""),
                    support_source=code in languages.sources,
                    support_target=code in languages.targets,
                )
                for code in languages.all
            ]
        )

    async def list_glossaries(self, request: Any, call: BaseCall) -> Any:
        """Answer ListGlossaries."""
        _require(*parent_violations(request.parent))
        if request.filter:
            raise bad_request("filter", "must be unset: all glossaries are listed")
        stored = await call.client.list_glossaries(timeout=call.seconds)
        page, following = page_of(stored, size=request.page_size, token=request.page_token)
        listed = [_glossary(glossary_resource(request.parent, each.name), each) for each in page]
        return types.ListGlossariesResponse.pb()(glossaries=listed, next_page_token=following)

    async def get_glossary(self, request: Any, call: BaseCall) -> Any:
        """Answer GetGlossary."""
        wanted = stored_glossary(request.name, field="name")
        for each in await call.client.list_glossaries(timeout=call.seconds):
            if each.name == wanted:
                return _glossary(request.name, each)
        raise not_found("there is no such glossary")

    async def delete_glossary(self, request: Any, call: BaseCall) -> Operation:
        """Answer DeleteGlossary with an operation that is over."""
        wanted = stored_glossary(request.name, field="name")
        await call.client.delete_glossary(wanted, timeout=call.seconds)
        location = request.name.partition("/glossaries/")[0]
        operation = Operation(name=f"{location}/operations/delete-{wanted}", done=True)
        operation.metadata.Pack(types.DeleteGlossaryMetadata.pb()(name=request.name, state="SUCCEEDED"))
        operation.response.Pack(types.DeleteGlossaryResponse.pb()(name=request.name))
        return operation


def _text_response(request: Any, job: TranslationJob, results: Iterable[Translated]) -> Any:
    translation = types.Translation.pb()
    plain = [
        translation(
            translated_text=each.text,
            detected_language_code="" if job.source else each.source,
            model=model_resource(request.parent, f"{each.translation.model}/{each.translation.model_version}"),
        )
        for each in results
    ]
    response = types.TranslateTextResponse.pb()(translations=plain)
    if glossary := request.glossary_config.glossary:
        # Google lists translations without it as well; a second translation would double the cost.
        response.glossary_translations.extend(plain)
        for each in response.glossary_translations:
            each.glossary_config.glossary = glossary
    return response


@contextmanager
def google_names(names: Mapping[str, str] = _NAMES) -> Iterator[None]:
    """Give the fields of faults Google's names.

    Args:
        names: Google's names, by those of the server's own service.

    Raises:
        RefusedError: In place of another, or of a TranslationError.
    """
    try:
        yield
    except RefusedError as error:
        raise RefusedError(error.fault.named(names)) from error
    except TranslationError as error:
        if error.code is StatusCode.UNIMPLEMENTED and not error.violations:
            raise
        raise RefusedError(fault_of(error).named(names)) from error


def _require(*violations: FieldViolation) -> None:
    if violations:
        raise invalid(violations)


def _mime_type_violations(mime_type: str) -> Iterable[FieldViolation]:
    if mime_type not in _FORMATS:
        shown = " or ".join(filter(None, _FORMATS))
        yield FieldViolation(field="mime_type", description=f"must be {shown}; left out, it means text/html")


def _label_violations(labels: Mapping[str, str]) -> Iterable[FieldViolation]:
    if len(labels) > MAX_LABELS:
        yield FieldViolation(field="labels", description=f"must have at most {MAX_LABELS} entries, has {len(labels)}")
    elif any(len(text) > MAX_LABEL_CHARACTERS for label in labels.items() for text in label):
        description = f"must have keys and values of at most {MAX_LABEL_CHARACTERS} characters"
        yield FieldViolation(field="labels", description=description)


def _unsupported(request: Any) -> Iterable[FieldViolation]:
    for name in ("ignore_case", "contextual_translation_enabled"):
        if getattr(request.glossary_config, name):
            yield FieldViolation(
                field=f"glossary_config.{name}", description="must be unset: terms are found as they are written"
            )
    if request.transliteration_config.enable_transliteration:
        description = "must be unset: this gateway does not transliterate"
        yield FieldViolation(field="transliteration_config", description=description)


def _glossary(resource: str, stored: StoredGlossary) -> Any:
    pair = {
        "source_language_code": stored.source_language,
        "target_language_code": stored.target_language,
    }
    return types.Glossary.pb()(
        name=resource, language_pair=pair, entry_count=stored.entry_count, display_name=stored.name
    )
