"""OpenAPI description of the gateway's own API."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from xuanzang.gateway.apis.json_api.messages import ALL, ExplainRequest, ExplainResponse, schemas


class _Call(NamedTuple):
    method: str
    path: str
    summary: str
    request: str | None
    response: str
    media_type: str = "application/json"


_CALLS = (
    _Call("post", "/v1/translate", "Translate texts, all or none", "TranslateRequest", "TranslateResponse"),
    _Call(
        "post",
        "/v1/translate/stream",
        "Translate a text: events part, then translation or error",
        "StreamRequest",
        "Part",
        "text/event-stream",
    ),
    _Call("post", "/v1/explain", "Translate a sentence and say how", "ExplainRequest", "ExplainResponse"),
    _Call("post", "/v1/detect", "Detect the languages of texts", "DetectRequest", "DetectResponse"),
    _Call("get", "/v1/models", "List the models that the caller may use", None, "ModelsResponse"),
    _Call("get", "/v1/glossaries", "List the glossaries that the server holds", None, "GlossariesResponse"),
)


_BINARY = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_DOCUMENTS = {
    "operationId": "post_v1_documents",
    "summary": "Translate a file; docs/documents.md lists the formats",
    "parameters": [
        {
            "name": name,
            "in": "query",
            "required": name in ("name", "target_language"),
            "description": description,
            "schema": {"type": "array", "items": {"type": "string"}} if name == "column" else {"type": "string"},
        }
        for name, description in (
            ("name", "Name of the file, whose suffix tells the format."),
            ("target_language", "BCP-47 code, such as en."),
            ("source_language", "BCP-47 code; left out: the server's only one, or that of each text."),
            ("model", "Name of a model, or name/version."),
            ("glossary_name", "A glossary of the server."),
            ("column", "Column or key whose texts are translated."),
        )
    ],
    "requestBody": {"required": True, "content": _BINARY},
    "responses": {
        "200": {
            "description": "The translated file.",
            "headers": {"x-document-summary": {"description": "What was done, as JSON.", "schema": {"type": "string"}}},
            "content": _BINARY,
        },
        "default": {"description": "A problem."},
    },
}


def document() -> dict[str, Any]:
    """Return the description."""
    paths: dict[str, Any] = {}
    for call in _CALLS:
        paths.setdefault(call.path, {})[call.method] = _operation(call)
    paths["/v1/documents"] = {"post": _DOCUMENTS}
    return {
        "openapi": "3.1.0",
        "info": {"title": "xuanzang gateway", "version": _version()},
        "security": [{"key": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas((*ALL, ExplainRequest, ExplainResponse)),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "API key of the server."}},
        },
    }


def _operation(call: _Call) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": "_".join([call.method, *call.path.strip("/").split("/")]),
        "summary": call.summary,
        "responses": {
            "200": {"description": "The answer.", "content": _content(call.response, call.media_type)},
            "default": {"description": "A problem.", "content": _content("Problem", "application/problem+json")},
        },
    }
    if call.request:
        operation["requestBody"] = {"required": True, "content": _content(call.request, "application/json")}
    return operation


def _content(name: str, media_type: str) -> dict[str, Any]:
    return {media_type: {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _version() -> str:
    try:
        return version("xuanzang-gateway")
    except PackageNotFoundError:  # run from its folder
        return "0"
