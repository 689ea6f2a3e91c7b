"""Google Cloud Translation v3 over gRPC, described for reflection by the methods that it answers."""

from __future__ import annotations

import asyncio
import json
from importlib.resources import files
from typing import NoReturn

from google.cloud.translate_v3.types import translation_service as types
from google.longrunning import operations_pb2
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import Message

from xuanzang.gateway.apis.google.v3 import GoogleV3
from xuanzang.gateway.entry.endpoints import BaseCall
from xuanzang.gateway.entry.grpc_calls import GrpcMethod, GrpcService
from xuanzang.gateway.errors import not_offered

_PACKAGE = "google.cloud.translation.v3"
_NAME = "TranslationService"
SERVICE = f"{_PACKAGE}.{_NAME}"
_OPERATION = operations_pb2.Operation
_TYPES = {
    "TranslateText": (types.TranslateTextRequest.pb(), types.TranslateTextResponse.pb()),
    "DetectLanguage": (types.DetectLanguageRequest.pb(), types.DetectLanguageResponse.pb()),
    "GetSupportedLanguages": (types.GetSupportedLanguagesRequest.pb(), types.SupportedLanguages.pb()),
    "ListGlossaries": (types.ListGlossariesRequest.pb(), types.ListGlossariesResponse.pb()),
    "GetGlossary": (types.GetGlossaryRequest.pb(), types.Glossary.pb()),
    "DeleteGlossary": (types.DeleteGlossaryRequest.pb(), _OPERATION),
}


def google_service(v3: GoogleV3) -> GrpcService:
    """Make the service."""
    _describe()
    handlers = {
        "TranslateText": v3.translate_text,
        "DetectLanguage": v3.detect_language,
        "GetSupportedLanguages": v3.supported_languages,
        "ListGlossaries": v3.list_glossaries,
        "GetGlossary": v3.get_glossary,
        "DeleteGlossary": v3.delete_glossary,
    }
    answered = {name: GrpcMethod(_TYPES[name][0].FromString, handler) for name, handler in handlers.items()}
    refused = {name: _refusal(name) for name in _official_methods() if name not in answered}
    return GrpcService(name=SERVICE, api="google", methods=answered | refused)


def _official_methods() -> list[str]:
    """Return the names of all methods of the API, as the official package lists them."""
    metadata = json.loads((files("google.cloud.translate_v3") / "gapic_metadata.json").read_text(encoding="utf-8"))
    return list(metadata["services"][_NAME]["clients"]["grpc"]["rpcs"])


def _refusal(name: str) -> GrpcMethod:
    message = f"{name} is not offered by this gateway, which has {', '.join(_TYPES)} of {SERVICE}"

    async def refuse(_request: bytes, _call: BaseCall) -> NoReturn:
        await asyncio.sleep(0)
        raise not_offered(message)

    return GrpcMethod(bytes, refuse)


def _describe() -> None:
    """Add the service to the descriptors of the process: google-cloud-translate has those of the messages only."""
    kinds = [kind.DESCRIPTOR for pair in _TYPES.values() for kind in pair]
    file = descriptor_pb2.FileDescriptorProto(
        name="xuanzang/gateway/google_translation_v3.proto",
        package=_PACKAGE,
        syntax="proto3",
        dependency=sorted({kind.file.name for kind in kinds}),
        service=[
            descriptor_pb2.ServiceDescriptorProto(
                name=_NAME,
                method=[
                    descriptor_pb2.MethodDescriptorProto(
                        name=name, input_type=_full_name(request), output_type=_full_name(response)
                    )
                    for name, (request, response) in _TYPES.items()
                ],
            )
        ],
    )
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())


def _full_name(kind: type[Message]) -> str:
    return f".{kind.DESCRIPTOR.full_name}"
