"""DeepL's API, version 2: texts, languages, usage, glossaries, documents."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, cast

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from xuanzang.client import ContentFormat, TranslateOptions
from xuanzang.gateway.apis.deepl.documents import DeepLDocuments
from xuanzang.gateway.apis.deepl.glossaries import DeepLGlossaries
from xuanzang.gateway.entry.endpoints import ApiStyle, Call, CallKind, Endpoint, Handler, SharedState
from xuanzang.gateway.entry.parameters import Parameters, checked_texts, unserved
from xuanzang.gateway.errors import Fault, bad_request
from xuanzang.gateway.languages import base, name_of, targets_by_source
from xuanzang.gateway.settings import FORM_BYTES
from xuanzang.gateway.translation import Translated, TranslationJob, translate

_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "contents": "text",
        "source_language_code": "source_lang",
        "target_language_code": "target_lang",
        "content_format": "tag_handling",
        "glossary": "glossary_id",
    }
)
_READ = frozenset(
    {"auth_key", "glossary_id", "pass_through_unserved", "source_lang", "tag_handling", "target_lang", "text"}
)
# Parameters whose other values ask for what no server can do; these ask for what it does anyway.
_FULFILLED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "enable_beta_languages": frozenset({"0", "false"}),
        "formality": frozenset({"default", "prefer_less", "prefer_more"}),
        "model_type": frozenset({"latency_optimized", "prefer_quality_optimized"}),
        "outline_detection": frozenset({"1", "true"}),
        "preserve_formatting": frozenset({"0", "1", "false", "true"}),
        "show_billed_characters": frozenset({"0", "1", "false", "true"}),
        "split_sentences": frozenset({"1"}),
        "tag_handling_version": frozenset({"v1", "v2"}),
    }
)
# Official clients refuse "EN" and "PT" as targets, so a model for them is listed as these.
_VARIANTS: Mapping[str, tuple[str, ...]] = MappingProxyType({"en": ("EN-GB", "EN-US"), "pt": ("PT-BR", "PT-PT")})
_STATUSES: Mapping[int, HTTPStatus] = MappingProxyType(
    {
        HTTPStatus.UNAUTHORIZED: HTTPStatus.FORBIDDEN,
        # A language or model that is not served; to its clients 404 is a wrong address or glossary.
        HTTPStatus.NOT_FOUND: HTTPStatus.BAD_REQUEST,
        # They repeat what gets 501.
        HTTPStatus.NOT_IMPLEMENTED: HTTPStatus.BAD_REQUEST,
    }
)


def render(fault: Fault) -> Response:
    """Return an error in DeepL's form.

    Args:
        fault: What is wrong.
    """
    status = _STATUSES.get(fault.status, fault.status)
    return JSONResponse({"message": fault.named(_NAMES).description}, status, headers=fault.headers)


class DeepL:
    """Handlers of the API."""

    def __init__(self, state: SharedState, *, documents: DeepLDocuments) -> None:
        """Make the handlers.

        Args:
            state: What all endpoints share.
            documents: Handlers of documents.
        """
        self._state = state
        self._documents = documents
        self._max_texts = state.settings.max_texts

    @property
    def routes(self) -> list[Route]:
        """Addresses of the API."""
        style = ApiStyle(name="deepl", render=render, key_parameters=("auth_key",))
        calls: dict[str, Handler] = {
            "/v2/translate": self.translate,
            "/v2/languages": self.languages,
            "/v2/usage": self.usage,
            **DeepLGlossaries().calls,
            **self._documents.calls,
        }
        # Clients may send parameters of GET as a form, with POST.
        routes = [
            Route(path, Endpoint(handler, style, self._state), methods=["GET", "POST", "DELETE"])
            for path, handler in calls.items()
        ]
        refusal = Endpoint(self.refuse, style, self._state)
        uploading = ApiStyle(name="deepl", render=render, reads_parameters=False)
        max_bytes = self._state.settings.max_document_bytes + FORM_BYTES
        upload = Endpoint(self._documents.upload, uploading, self._state, kind=CallKind.UPLOAD, max_bytes=max_bytes)
        routes.append(Route("/v2/document", upload, methods=["POST"]))
        return [*routes, Route("/v2/{rest:path}", refusal), Route("/v3/{rest:path}", refusal)]

    async def translate(self, call: Call) -> Response:
        """Answer /v2/translate."""
        parameters = call.parameters
        _require_fulfilled(parameters)
        texts = checked_texts(parameters.texts("text"), field="text", maximum=self._max_texts)
        target = parameters.text("target_lang")
        if target is None:
            raise bad_request("target_lang", "must be given")
        options = _options(parameters)
        job = TranslationJob(texts=texts, source=parameters.text("source_lang"), target=target, options=options)
        results = await translate(call.client, job)
        more = {"model_type_used": "latency_optimized"} if "model_type" in parameters.names else {}
        translations = [_translation(*each, target) | more for each in zip(texts, results, strict=True)]
        return JSONResponse({"translations": translations})

    async def languages(self, call: Call) -> Response:
        """Answer /v2/languages."""
        kind = call.parameters.text("type") or "source"
        if kind not in ("source", "target"):
            raise bad_request("type", 'must be "source" or "target"')
        pairs = targets_by_source(await call.client.list_models())
        if kind == "source":
            return JSONResponse([_language(code) for code in pairs])
        targets = sorted({target for targets in pairs.values() for target in targets})
        codes = [variant for code in targets for variant in _VARIANTS.get(code, (code,))]
        return JSONResponse([_language(code) | {"supports_formality": False} for code in codes])

    async def usage(self, call: Call) -> Response:
        """Answer /v2/usage: nothing is counted by month, so it says no more than that the key is valid."""
        await call.client.list_models()
        return JSONResponse({})

    async def refuse(self, call: Call) -> Response:  # noqa: ARG002 - as all handlers
        """Answer what is not there."""
        message = "this gateway has no such call of DeepL's API: docs/gateway.md lists those that it has"
        return JSONResponse({"message": message}, HTTPStatus.NOT_FOUND)


def _require_fulfilled(parameters: Parameters) -> None:
    for name in sorted(parameters.names - _READ):
        allowed = _FULFILLED.get(name)
        value = parameters.scalar(name) if allowed else None
        if allowed is None:
            raise bad_request(name, "is not supported by this gateway")
        if value is not None and value.lower() not in allowed:
            raise bad_request(name, f"is supported only as {' or '.join(sorted(allowed))}")


def _options(parameters: Parameters) -> TranslateOptions:
    chosen = unserved(parameters)
    tags = parameters.text("tag_handling")
    if tags is not None:
        if tags not in ("html", "xml"):
            raise bad_request("tag_handling", 'must be "html" or "xml"')
        chosen["content_format"] = cast("ContentFormat", tags)
    glossary = parameters.text("glossary_id")
    if glossary is not None:
        chosen["glossary_name"] = glossary
    return chosen


def _translation(text: str, result: Translated, target: str) -> dict[str, Any]:
    return {
        # The field has no value for text without a language, such as a name that was copied.
        "detected_source_language": base(result.source or target).upper(),
        "text": result.text,
        "billed_characters": len(text),
    }


def _language(code: str) -> dict[str, Any]:
    return {"language": code.upper(), "name": name_of(code)}
