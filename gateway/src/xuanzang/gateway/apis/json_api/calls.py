"""The gateway's own API: JSON, with problems of RFC 9457 and a progressive translation as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import asdict, replace
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from xuanzang.client import (
    Explanation,
    GlossaryMatch,
    Hypothesis,
    ProgressiveTranslation,
    Quality,
    SamplingOptions,
    TokenDetail,
    TranslateOptions,
    TranslationError,
)
from xuanzang.gateway.apis.json_api import messages
from xuanzang.gateway.apis.json_api.openapi import document
from xuanzang.gateway.apis.openai.completions import listed_pairs
from xuanzang.gateway.entry.endpoints import Api, ApiStyle, Call, Handler, SharedState, routes_of
from xuanzang.gateway.entry.parameters import Asked, checked_texts, validated
from xuanzang.gateway.errors import Fault, fault_of
from xuanzang.gateway.translation import Translated, TranslationJob, answered, log_models, size_of

_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "contents": "texts",
        "content": "text",
        "glossary_entries": "glossary",
        "glossary": "glossary_name",
        "source_language_code": "source_language",
        "target_language_code": "target_language",
        "return_alternatives": "options.return_alternatives",
        "token_details": "options.token_details",
    }
)
_BESIDE_OPTIONS = {
    "model",
    "content_format",
    "glossary",
    "glossary_name",
    "protected_patterns",
    "placeholders",
    "return_quality",
    "return_provenance",
    "pass_through_unserved",
    "allow_pivot",
}


def render(fault: Fault) -> Response:
    """Return an error as a problem of RFC 9457."""
    headers = fault.headers | {"content-type": "application/problem+json"}
    return JSONResponse(_problem(fault), fault.status, headers=headers)


class JsonApi(Api):
    """Handlers of the API."""

    def __init__(self, state: SharedState) -> None:
        """Make the handlers."""
        super().__init__(state)
        self._document = _json(document())

    @property
    def routes(self) -> list[Route]:
        """Addresses of the API."""
        style = ApiStyle(name="json", render=render, reads_parameters=False)
        calls: list[tuple[str, str, Handler]] = [
            ("POST", "/v1/translate", self.translate),
            ("POST", "/v1/translate/stream", self.stream),
            ("POST", "/v1/detect", self.detect),
            ("GET", "/v1/models", self.models),
            ("GET", "/v1/glossaries", self.glossaries),
        ]
        explaining, limit = ("POST", "/v1/explain", self.explain), self._state.limits.explanations
        return [
            Route("/openapi.json", self.openapi, methods=["GET"]),
            *routes_of([explaining], style, self._state, limit=limit),
            *routes_of(calls, style, self._state),
        ]

    async def translate(self, call: Call) -> Response:
        """Answer /v1/translate."""
        request = await call.apart(partial(_read, messages.TranslateRequest, call))
        return await answered(
            call.limited(request.timeout_seconds),
            lambda _: self._job(request),
            lambda _, results: {"translations": [rendered(each) for each in results]},
        )

    def _job(self, request: messages.TranslateRequest) -> TranslationJob:
        texts = checked_texts(request.texts, field="texts", maximum=self._max_texts)
        source, target = request.source_language, request.target_language
        return TranslationJob(texts=texts, source=source, target=target, options=_options(request))

    async def stream(self, call: Call) -> Response:
        """Answer /v1/translate/stream; an error before the first part sets the HTTP status."""
        request = await call.apart(partial(_read, messages.StreamRequest, call))
        source = request.source_language
        options = _options(request) | {"source_language": source, "target_language": request.target_language}
        seconds = call.limited(request.timeout_seconds).seconds
        parts = call.client.translate_progressively(request.text, timeout=seconds, **options)
        first = await anext(parts)
        return _stream(_events(call, first, parts, source))

    async def explain(self, call: Call) -> Response:
        """Answer /v1/explain."""
        request = await call.apart(partial(_read, messages.ExplainRequest, call))
        explanation = await call.client.explain(
            request.text,
            source_language=request.source_language,
            target_language=request.target_language,
            model=request.model,
            attention_kinds=request.attention_kinds,
            attention_layers=request.attention_layers,
            attention_heads=request.attention_heads,
            timeout=call.limited(request.timeout_seconds).seconds,
            **request.options.model_dump(exclude_none=True),
        )
        log_models(call, [explanation.translation])
        source = request.source_language or explanation.translation.detected_language
        return await _explained(explanation, source)

    async def detect(self, call: Call) -> Response:
        """Answer /v1/detect."""
        request = await call.apart(partial(_read, messages.DetectRequest, call))
        texts = checked_texts(request.texts, field="texts", maximum=self._max_texts)
        detections = await call.client.detect_languages(texts, timeout=call.seconds)
        listed = [
            [
                {"language": each.code, "confidence": each.confidence, "script": each.script or None}
                for each in languages
            ]
            for languages in detections
        ]
        return JSONResponse({"detections": listed})

    async def models(self, call: Call) -> Response:
        """Answer /v1/models."""
        names = messages.Model.model_fields
        served = await call.client.list_models(timeout=call.seconds)
        listed = [{name: getattr(each, name) for name in names} for each in served]
        # OpenAI's API has the same address.
        return JSONResponse({"models": listed, "object": "list", "data": listed_pairs(served)})

    async def glossaries(self, call: Call) -> Response:
        """Answer /v1/glossaries."""
        names = messages.Glossary.model_fields
        stored = await call.client.list_glossaries(timeout=call.seconds)
        return JSONResponse({"glossaries": [{name: getattr(each, name) for name in names} for each in stored]})

    async def openapi(self, _: object) -> Response:
        """Answer /openapi.json."""
        return Response(self._document, media_type="application/json")


def _read(kind: type[Asked], call: Call) -> Asked:
    # As the gRPC service names it, because every fault is given the names of this API at last.
    return validated(kind, call.body, names={"glossary": "glossary_entries"})


def _options(request: messages.TranslateRequest | messages.StreamRequest) -> TranslateOptions:
    given = request.options.model_dump(exclude_none=True)
    given |= request.model_dump(include=_BESIDE_OPTIONS, exclude_none=True)
    if "sampling" in given:
        given["sampling"] = SamplingOptions(**given["sampling"])
    return cast("TranslateOptions", given)


async def _explained(explanation: Explanation, source: str) -> Response:
    """Return an explanation as JSON, made piece by piece: all of a million weights would keep others for a second."""
    rest = replace(explanation, attention=(), search_steps=()).as_dict() | {"source_language": source}
    lists: dict[str, list[str]] = {}
    for name, parts in (("attention", explanation.attention), ("search_steps", explanation.search_steps)):
        lists[name] = []
        for part in parts:
            lists[name].append(_json(part.as_dict()))
            await asyncio.sleep(0)
    members = (f"{_json(name)}:{_json(value)}" for name, value in rest.items() if name not in lists)
    large = (f"{_json(name)}:[{','.join(parts)}]" for name, parts in lists.items())
    return Response(f"{{{','.join((*members, *large))}}}", media_type="application/json")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _problem(fault: Fault) -> dict[str, Any]:
    named = fault.named(_NAMES)
    problem: dict[str, Any] = {
        "type": "about:blank",
        "title": fault.status.phrase,
        "status": fault.status.value,
        "detail": named.description,
        "reason": fault.reason,
    }
    if named.violations:
        problem["violations"] = [{"field": each.field, "description": each.description} for each in named.violations]
    if fault.detected_languages or fault.served_languages:
        problem["detected_languages"] = list(fault.detected_languages)
        problem["served_languages"] = list(fault.served_languages)
    if fault.retry_after is not None:
        problem["retry_after_seconds"] = fault.retry_after
    return problem


def _stream(events: AsyncGenerator[str, None]) -> Response:
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


async def _events(
    call: Call,
    first: ProgressiveTranslation,
    parts: AsyncGenerator[ProgressiveTranslation, None],
    source: str | None,
) -> AsyncGenerator[str, None]:
    """Yield the events of a translation: parts, then the whole or an error."""
    part = first
    try:
        while True:
            if part.text_delta:
                yield _event("part", {"text_delta": part.text_delta})
            if part.translation is not None:
                log_models(call, [part.translation])
                whole = Translated.of(part.translation, source)
                yield await call.apart(partial(_whole, whole), more=size_of(whole))
            part = await anext(parts)
    except StopAsyncIteration:
        return
    except TranslationError as error:
        yield _event("error", _problem(fault_of(error)))
    finally:
        await parts.aclose()


def _whole(result: Translated) -> str:
    return _event("translation", rendered(result))


def _event(name: str, data: Mapping[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def rendered(result: Translated) -> dict[str, Any]:
    """Return the message of a translation.

    Args:
        result: A text in the target language.
    """
    made = result.translation
    return {
        "text": result.text,
        "source_language": result.source,
        "detection_confidence": result.confidence,
        "model": made.model,
        "model_version": made.model_version,
        "hypotheses": [_hypothesis(each) for each in made.hypotheses],
        "glossary_matches": [_match(each) for each in made.glossary_matches],
        "provenance": asdict(made.provenance) if made.provenance else None,
        "pivot": {name: getattr(made.pivot, name) for name in messages.Pivot.model_fields} if made.pivot else None,
    }


def _hypothesis(hypothesis: Hypothesis) -> dict[str, Any]:
    return {
        "text": hypothesis.text,
        "score": hypothesis.score,
        "finish_reason": hypothesis.finish_reason.name.lower(),
        "token_count": hypothesis.token_count,
        "tokens": [_token(each) for each in hypothesis.tokens],
        "quality": _quality(hypothesis.quality) if hypothesis.quality else None,
        "lost_placeholders": list(hypothesis.lost_placeholders),
    }


def _token(token: TokenDetail) -> dict[str, Any]:
    return {
        "text": token.text,
        "score": token.score,
        "source_start": token.source_start,
        "source_end": token.source_end,
    }


def _quality(quality: Quality) -> dict[str, Any]:
    return {
        "acceptable_probability": quality.acceptable_probability,
        "flags": sorted(each.name.lower() for each in quality.flags),
    }


def _match(match: GlossaryMatch) -> dict[str, Any]:
    return {
        "source": match.source,
        "source_start": match.source_start,
        "source_end": match.source_end,
        "target": match.target,
        "outcome": match.outcome.name.lower(),
        "pattern": match.pattern.name.lower(),
    }
