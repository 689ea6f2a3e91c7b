"""The methods of google.cloud.translation.v3.TranslationService, each a call of the translation service's own."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NoReturn

import grpc
from google.cloud.translate_v3.types import translation_service as types

from xuanzang.server.access.errors import ModelNotAllowedError
from xuanzang.server.engine.errors import InvalidInputError, ModelNotFoundError
from xuanzang.server.rpc.context import RpcContext
from xuanzang.server.rpc.errors import NotOfferedError
from xuanzang.server.rpc.faces.google.display_names import display_locale
from xuanzang.server.rpc.faces.google.glossaries import GlossaryMethods, renamed
from xuanzang.server.rpc.faces.google.names import served_name
from xuanzang.server.rpc.faces.google.requests import read_detection, read_translation, require_listable
from xuanzang.server.rpc.faces.google.responses import detection_response, languages_response, translation_response
from xuanzang.server.rpc.grpc_private import Handler
from xuanzang.server.rpc.messages.requests import for_single_text
from xuanzang.server.rpc.methods import RpcFunction, Service
from xuanzang.server.rpc.services.translation import TranslationService
from xuanzang.translation.v1 import translation_pb2 as pb

GOOGLE_SERVICE = "google.cloud.translation.v3.TranslationService"

_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "settings.content_format": "mime_type",
        "settings.glossary": "glossary_config.glossary",
        "settings.model": "model",
        "settings.source_language_code": "source_language_code",
        "settings.target_language_code": "target_language_code",
    }
)


def google_face(service: TranslationService) -> Service:
    """Make the face of Google Cloud Translation v3.

    Args:
        service: Service that translates, detects and lists.
    """
    methods = _Methods(service)
    glossaries = GlossaryMethods(service.glossaries)
    answered = {
        "TranslateText": _handler(methods.translate_text, types.TranslateTextRequest),
        "DetectLanguage": _handler(methods.detect_language, types.DetectLanguageRequest),
        "GetSupportedLanguages": _handler(methods.supported_languages, types.GetSupportedLanguagesRequest),
        **{name: _handler(function, request) for name, (function, request) in glossaries.by_name.items()},
    }
    refused = {name: _refusal(name, answered) for name in _official_methods()}
    return Service(
        name=GOOGLE_SERVICE,
        handlers=refused | answered,
        is_gated=True,
        answered=frozenset(answered),
        screened=frozenset({"TranslateText"}),
    )


class _Methods:
    """What the methods do."""

    def __init__(self, service: TranslationService) -> None:
        self._service = service

    async def translate_text(self, request: Any, rpc: RpcContext) -> Any:
        try:
            answer = await self._service.TranslateText(read_translation(request), rpc)
        except InvalidInputError as error:
            raise renamed(error, _NAMES) from None
        except ModelNotAllowedError as error:
            [fault] = error.violations
            raise ModelNotAllowedError(dataclasses.replace(fault, field=_NAMES[fault.field])) from None
        return translation_response(request.parent, answer, request.glossary_config.glossary)

    async def detect_language(self, request: Any, rpc: RpcContext) -> Any:
        try:
            answer = await self._service.DetectLanguage(read_detection(request), rpc)
        except InvalidInputError as error:
            raise for_single_text(error) from None
        return detection_response(answer.detections[0])

    async def supported_languages(self, request: Any, rpc: RpcContext) -> Any:
        require_listable(request)
        locale = display_locale(request.display_language_code)
        answer = await self._service.ListModels(pb.ListModelsRequest(), rpc)
        return languages_response(_chosen(answer.models, served_name(request.model)), locale)


def _chosen(models: Iterable[pb.Model], name: str) -> list[pb.Model]:
    chosen = [model for model in models if name in ("", model.name, f"{model.name}/{model.version}")]
    if name and not chosen:
        raise ModelNotFoundError(f"model {name!r} is not served")
    return chosen


def _handler(function: RpcFunction, request: Any) -> Handler:
    handler: Handler = grpc.unary_unary_rpc_method_handler(
        function,
        request_deserializer=request.pb().FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )
    return handler


def _official_methods() -> Iterable[str]:
    """Return the names of all methods of the API, as the official package lists them."""
    metadata = json.loads((files("google.cloud.translate_v3") / "gapic_metadata.json").read_text(encoding="utf-8"))
    return list(metadata["services"]["TranslationService"]["clients"]["grpc"]["rpcs"])


def _refusal(name: str, answered: Iterable[str]) -> Handler:
    message = f"{name} is not offered by this server, which has {', '.join(answered)} of {GOOGLE_SERVICE}"

    async def refuse(_request: bytes, _rpc: RpcContext) -> NoReturn:
        raise NotOfferedError(message)

    handler: Handler = grpc.unary_unary_rpc_method_handler(refuse)
    return handler
