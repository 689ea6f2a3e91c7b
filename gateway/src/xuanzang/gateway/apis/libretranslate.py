"""LibreTranslate's API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from xuanzang.client import TranslateOptions
from xuanzang.documents import SUFFIXES
from xuanzang.gateway.entry.endpoints import Api, ApiStyle, Call, SharedState, Variant, routes_of
from xuanzang.gateway.entry.parameters import UNSERVED, Parameters, checked_texts, unserved
from xuanzang.gateway.errors import Fault, RefusedError
from xuanzang.gateway.languages import listed_pivots, name_of, pivoted_targets, targets_by_source
from xuanzang.gateway.translation import Translated, TranslationJob, answered

_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "contents": "q",
        "source_language_code": "source",
        "target_language_code": "target",
        "content_format": "format",
        "options.num_hypotheses": "alternatives",
    }
)
_PARAMETERS = frozenset({"q", "source", "target", "format", "alternatives", "api_key", "secret", UNSERVED})
_KEY_HINT = "the parameter api_key"
_MAX_ALTERNATIVES = 15
# Its servers answer a language that they lack with 400.
_STATUSES: Mapping[int, HTTPStatus] = MappingProxyType(
    {HTTPStatus.UNAUTHORIZED: HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND: HTTPStatus.BAD_REQUEST}
)

_SPEC = {
    "swagger": "2.0",
    "info": {"title": "LibreTranslate", "version": "1.9", "description": "The calls that this gateway has."},
    "paths": {
        path: {
            method: {
                "summary": summary,
                "consumes": ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"],
                "produces": ["application/json"],
                "parameters": [
                    {"in": "formData", "name": name, "type": "string", "required": is_required}
                    for name, is_required in parameters.items()
                ],
                "responses": {"200": {"description": "The answer."}, "400": {"description": "An error."}},
            }
        }
        for path, method, summary, parameters in (
            (
                "/translate",
                "post",
                "Translate texts",
                {"q": True, "source": True, "target": True, "format": False, "alternatives": False, "api_key": False},
            ),
            ("/detect", "post", "Detect the language of a text", {"q": True, "api_key": False}),
            ("/languages", "get", "List the languages", {}),
            ("/frontend/settings", "get", "Return what frontends must know", {}),
        )
    },
}


def render(fault: Fault) -> Response:
    """Return an error in LibreTranslate's form."""
    status = _STATUSES.get(fault.status, fault.status)
    return JSONResponse({"error": fault.named(_NAMES).description}, status, headers=fault.headers)


STYLE = ApiStyle(name="libretranslate", render=render, key_parameters=("api_key",), key_hint=_KEY_HINT)


class LibreTranslate(Api):
    """Handlers of the API."""

    def __init__(self, state: SharedState, *, variants: Mapping[str, Sequence[Variant]]) -> None:
        """Make the handlers.

        Args:
            variants: Other APIs that have the same addresses, by these.
        """
        super().__init__(state)
        self._settings = state.settings
        self._variants = variants

    @property
    def routes(self) -> list[Route]:
        """Addresses of the API."""
        style = STYLE
        # Programs ask for these without their keys.
        opened = replace(style, needs_key=False)
        calls = [
            ("GET POST", "/translate", self.translate, style),
            ("POST", "/detect", self.detect, style),
            ("GET", "/languages", self.languages, opened),
            ("GET", "/frontend/settings", self.frontend_settings, opened),
        ]
        routes = [
            routes_of([(methods, path, handler)], keys, self._state, variants=self._variants.get(path, ()))[0]
            for methods, path, handler, keys in calls
        ]
        return [*routes, Route("/spec", self.spec, methods=["GET"])]

    async def translate(self, call: Call) -> Response:
        """Answer /translate."""
        given = call.parameters
        is_list, automatic = given.is_list("q"), given.text("source") == "auto"

        def written(job: TranslationJob, results: list[Translated]) -> object:
            alternatives = "num_hypotheses" in job.options
            return _answer(results, is_list=is_list, automatic=automatic, alternatives=alternatives)

        try:
            return await answered(call, self._read, written)
        except RefusedError as error:
            named = _about_languages(error)
            raise named from (None if named is error else error)

    def _read(self, call: Call) -> TranslationJob:
        given = call.parameters
        call.ignore_others(_PARAMETERS)
        _require_given(given, "q", "source", "target")
        source, target = given.text("source"), given.text("target")
        alternatives = given.whole("alternatives", minimum=0, maximum=_MAX_ALTERNATIVES) or 0
        return TranslationJob(
            texts=checked_texts(given.texts("q"), field="q", maximum=self._max_texts),
            source=None if source == "auto" else source,
            target=target or "",
            options=_format(given) | _search(alternatives) | unserved(given.scalar(UNSERVED)),
        )

    async def detect(self, call: Call) -> Response:
        """Answer /detect."""
        _require_given(call.parameters, "q")
        texts = checked_texts(call.parameters.texts("q"), field="q", maximum=1)
        (found,) = await call.client.detect_languages(texts, timeout=call.seconds)
        return JSONResponse([_detected(each.code, each.confidence) for each in found])

    async def languages(self, call: Call) -> Response:
        """Answer /languages: source languages with their targets, then languages that are targets only."""
        models = await call.client.list_models(timeout=call.seconds)
        pairs, pivoted = targets_by_source(models), pivoted_targets(models)
        others = {target: list[str]() for targets in pairs.values() for target in targets if target not in pairs}
        listed = pairs | dict(sorted(others.items()))
        return JSONResponse(
            [
                {"code": code, "name": name_of(code), "targets": targets}
                | listed_pivots("pivoted_targets", pivoted.get(code, ()))
                for code, targets in listed.items()
            ]
        )

    async def frontend_settings(self, call: Call) -> Response:
        """Answer /frontend/settings with what the server translates."""
        models = await call.client.list_models(timeout=call.seconds)
        pairs = targets_by_source(models)
        source = next(iter(pairs), "")
        target = next(iter(pairs.get(source, [])), "")
        return JSONResponse(
            {
                "apiKeys": True,
                "charLimit": min((limit for each in models if (limit := each.max_content_characters)), default=-1),
                "filesTranslation": True,
                "frontendTimeout": 500,
                "keyRequired": not self._settings.admits_anonymous,
                "language": {
                    "source": {"code": "auto", "name": "Auto Detect"},
                    "target": {"code": target, "name": name_of(target)},
                },
                "suggestions": False,
                "supportedFilesFormat": list(SUFFIXES),
            }
        )

    async def spec(self, _: object) -> Response:
        """Answer /spec with a description by Swagger."""
        return JSONResponse(_SPEC)


def _require_given(parameters: Parameters, *names: str) -> None:
    for name in names:
        if not parameters.texts(name):
            message = f"Invalid request: missing {name} parameter"
            raise RefusedError(Fault(status=HTTPStatus.BAD_REQUEST, message=message))


def _about_languages(error: RefusedError) -> RefusedError:
    """Return a refusal in LibreTranslate's words if it is about a language that is not served."""
    is_about_language = error.fault.status is HTTPStatus.NOT_FOUND and error.fault.violations
    return RefusedError(replace(error.fault, violations=())) if is_about_language else error


def _format(given: Parameters) -> TranslateOptions:
    return {"content_format": "html"} if given.choice("format", ("html", "text")) == "html" else {}


def _search(alternatives: int) -> TranslateOptions:
    return {"num_hypotheses": alternatives + 1, "return_alternatives": True} if alternatives else {}


def _answer(results: list[Translated], *, is_list: bool, automatic: bool, alternatives: bool) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {"translatedText": [each.text for each in results]}
    if automatic:
        columns["detectedLanguage"] = [_detected(each.source, each.confidence or 0.0) for each in results]
    if alternatives:
        columns["alternatives"] = [_others(each) for each in results]
    return {name: values if is_list else values[0] for name, values in columns.items()}


def _others(result: Translated) -> list[str]:
    return [each.text for each in result.translation.hypotheses[1:]]


def _detected(code: str, confidence: float) -> dict[str, Any]:
    return {"confidence": round(100 * confidence, 1), "language": code}
