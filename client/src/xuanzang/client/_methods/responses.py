"""Conversion of protobuf responses to the values of this package."""

from __future__ import annotations

from google.protobuf.message import Message

from xuanzang.client._calls.status import error_from_status
from xuanzang.client._errors import ServerFaultError, StatusCode, TranslationError
from xuanzang.client._methods.requests import repeatable_request
from xuanzang.client._values.capsule import Exchange
from xuanzang.client._values.explanations import Attention, Explanation
from xuanzang.client._values.results import DetectedLanguage, ProgressiveTranslation, StoredGlossary, Translation
from xuanzang.translation.v1 import explanation_pb2
from xuanzang.translation.v1 import translation_pb2 as pb
from xuanzang.values.models import DecodingDefaults, Model
from xuanzang.values.provenance import pivot_of, provenance_of
from xuanzang.values.reading import value_of

_RESIDENCIES = {
    number: name.removeprefix("MODEL_RESIDENCY_").lower() for name, number in pb.ModelResidency.items() if number
}
_Response = (
    pb.TranslateTextResponse
    | pb.StreamTranslateTextResponse
    | pb.TranslateTextProgressivelyResponse
    | pb.ExplainTranslationResponse
)


def translations(response: pb.TranslateTextResponse, request: pb.TranslateTextRequest) -> list[Translation]:
    """Read the translations of a response.

    Raises:
        ServerFaultError: The number of translations is not that of the texts, or one has no hypothesis.
    """
    texts, answers = request.contents, response.translations
    if len(answers) != len(texts):
        raise _fault(f"the server answered {len(texts)} texts with {len(answers)} translations")
    return [_translation(answer, response, request.settings, text) for answer, text in zip(answers, texts, strict=True)]


def streamed_result(
    response: pb.StreamTranslateTextResponse, settings: pb.TranslationSettings, text: str
) -> Translation | TranslationError:
    """Read the result of one text of a stream."""
    if response.WhichOneof("result") == "error":
        return error_from_status(response.error)
    return _translation(response.translation, response, settings, text)


def progressive_translation(
    response: pb.TranslateTextProgressivelyResponse, request: pb.TranslateTextProgressivelyRequest
) -> ProgressiveTranslation:
    """Read one part of a progressive translation."""
    translation = None
    if response.HasField("translation"):
        translation = _translation(response.translation, response, request.settings, request.content)
    return ProgressiveTranslation(text_delta=response.text_delta, translation=translation)


def whole(last: ProgressiveTranslation | None) -> Translation:
    """Return the whole translation, which the last part holds.

    Raises:
        ServerFaultError: It does not, or there is no part.
    """
    if last is None or last.translation is None:
        raise _fault("the server ended the call without a translation")
    return last.translation


def explanation(response: pb.ExplainTranslationResponse, request: pb.ExplainTranslationRequest) -> Explanation:
    """Read an explanation.

    Raises:
        ServerFaultError: There is no hypothesis, or weights are missing.
    """
    message = response.explanation
    translation = _translation(response.translation, response, request.settings, request.content)
    attention = tuple(map(_attention, message.attention))
    return value_of(Explanation, message, translation=translation, attention=attention)


def detections(response: pb.DetectLanguageResponse, request: pb.DetectLanguageRequest) -> list[list[DetectedLanguage]]:
    """Read the languages of texts.

    Raises:
        ServerFaultError: The number of answers is not that of the texts.
    """
    texts, answers = request.contents, response.detections
    if len(answers) != len(texts):
        raise _fault(f"the server answered {len(texts)} texts with {len(answers)} detections")
    return [
        [
            DetectedLanguage(code=each.language_code, confidence=each.confidence, script=each.script_code)
            for each in detection.languages
        ]
        for detection in answers
    ]


def models(response: pb.ListModelsResponse, _: pb.ListModelsRequest) -> list[Model]:
    """Read the models of a response."""
    return [_model(each) for each in response.models]


def glossaries(response: pb.ListGlossariesResponse, _: pb.ListGlossariesRequest) -> list[StoredGlossary]:
    """Read the glossaries of a response."""
    return [_glossary(each) for each in response.glossaries]


def created_glossary(response: pb.CreateGlossaryResponse, _: pb.CreateGlossaryRequest) -> StoredGlossary:
    """Read a new glossary."""
    return _glossary(response.glossary)


def _glossary(message: pb.Glossary) -> StoredGlossary:
    source, target = message.source_language_code, message.target_language_code
    return value_of(StoredGlossary, message, source_language=source, target_language=target)


def glossary_entries(message: pb.ListGlossaryEntriesResponse) -> dict[str, tuple[str, ...]]:
    """Read the entries of a glossary."""
    return {entry.source: tuple(entry.targets) for entry in message.entries}


def _fault(message: str) -> ServerFaultError:
    return ServerFaultError(message, code=StatusCode.INTERNAL)


def _translation(
    message: pb.Translation, response: _Response, settings: pb.TranslationSettings, text: str
) -> Translation:
    if not message.hypotheses:
        raise _fault("the server answered with a translation that has no hypothesis")
    provenance = exchange = None
    if message.HasField("provenance"):
        provenance = provenance_of(message.provenance)
        request = repeatable_request(settings, text, message.provenance)
        exchange = Exchange(request=_bytes(request), translation=_bytes(message))
    return value_of(
        Translation,
        message,
        model=response.model,
        model_version=response.model_version,
        detected_language=message.detected_language_code,
        provenance=provenance,
        exchange=exchange,
        pivot=pivot_of(message),
    )


def _attention(message: explanation_pb2.Attention) -> Attention:
    weights, columns = tuple(message.weights), message.columns
    if len(weights) != message.rows * columns:
        raise _fault("the server answered with another number of weights than rows and columns have")
    rows = tuple(weights[row * columns : (row + 1) * columns] for row in range(message.rows))
    return value_of(Attention, message, weights=rows)


def _bytes(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


def _model(message: pb.Model) -> Model:
    return value_of(
        Model,
        message,
        source_languages=tuple(message.source_language_codes),
        target_languages=tuple(message.target_language_codes),
        defaults=value_of(DecodingDefaults, message.default_options),
        residency=_RESIDENCIES.get(message.residency, ""),
        residency_since=float(message.residency_time.seconds),
        pivoted_source_languages=tuple(message.pivoted_source_language_codes),
        pivot_language=message.pivot_language_code,
    )
