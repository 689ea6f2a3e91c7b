"""Microsoft Translator's API, version 3: requests of it are told by their parameter `api-version`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from xuanzang.client import DetectedLanguage, TranslateOptions
from xuanzang.gateway.entry.callers import key_in
from xuanzang.gateway.entry.endpoints import Api, ApiStyle, Call, Variant, routes_of
from xuanzang.gateway.entry.parameters import TRUTH_VALUES, UNSERVED, Parameters, checked_texts, unserved
from xuanzang.gateway.errors import Fault, bad_request
from xuanzang.gateway.languages import (
    base,
    listed_pivots,
    name_of,
    own_name_of,
    pivoted_targets,
    source_for,
    targets_by_source,
    unless_automatic,
)
from xuanzang.gateway.translation import Translated, TranslationJob, translate

_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "contents": "body",
        "source_language_code": "from",
        "target_language_code": "to",
        "content_format": "textType",
        "model": "category",
    }
)
_VERSION = "api-version"
# Parameters with the values that ask for what happens anyway; None: any language.
_FULFILLED: Mapping[str, frozenset[str] | None] = MappingProxyType(
    {
        "allowFallback": frozenset(TRUTH_VALUES),
        "fromScript": frozenset(),
        "includeAlignment": frozenset({"0", "false"}),
        "includeSentenceLength": frozenset({"0", "false"}),
        "profanityAction": frozenset({"noaction"}),
        "profanityMarker": frozenset({"asterisk", "tag"}),
        "suggestedFrom": None,
        "toScript": frozenset(),
    }
)
_READ = frozenset({_VERSION, "from", "to", "textType", "category", UNSERVED})
_FORMATS: Mapping[str, TranslateOptions] = MappingProxyType({"plain": {}, "html": {"content_format": "html"}})
_KEY_HINT = "the header ocp-apim-subscription-key"
_NO_KEY = "anonymous"
"""Token of a caller without a key, where none is asked for."""
_SCOPES = ("translation", "transliteration", "dictionary")
_FROM_RIGHT = frozenset({"ar", "ckb", "dv", "fa", "he", "ks", "ps", "sd", "ug", "ur", "yi"})


def render(fault: Fault) -> Response:
    """Return an error in Microsoft's form, whose codes begin with the status."""
    status = fault.status_without_404
    error = {"code": status * 1000, "message": fault.named(_NAMES).description}
    return JSONResponse({"error": error}, status, headers=fault.headers)


class Microsoft(Api):
    """Handlers of the API, whose addresses LibreTranslate has, too."""

    @property
    def variants(self) -> Mapping[str, Variant]:
        """Calls, by the addresses that they share with other APIs."""
        style = ApiStyle(name="microsoft", render=render, reads_elements=True, key_hint=_KEY_HINT)
        return {
            "/translate": Variant(fits=_fits, handler=self.translate, style=style),
            "/detect": Variant(fits=_fits, handler=self.detect, style=style),
            "/languages": Variant(fits=_fits, handler=self.languages, style=replace(style, needs_key=False)),
        }

    @property
    def routes(self) -> list[Route]:
        """Address that is only its own."""
        style = ApiStyle(name="microsoft", render=render, key_parameters=("subscription-key",), key_hint=_KEY_HINT)
        paths = ("/sts/v1.0/issueToken", "/sts/v1.0/issuetoken")
        return routes_of([("GET POST", path, self.issue_token) for path in paths], style, self._state)

    async def translate(self, call: Call) -> Response:
        """Answer /translate: each text in each target language, one after the other, within the call's deadline."""
        job, targets = await call.apart(partial(self._read, call))
        columns = [await translate(call, replace(job, target=target)) for target in targets]
        rows = zip(*columns, strict=True)
        is_detected = job.source is None
        return await call.apart(
            lambda: JSONResponse([_translated(row, targets, is_detected=is_detected) for row in rows])
        )

    def _read(self, call: Call) -> tuple[TranslationJob, list[str]]:
        given = call.parameters
        _require_version(given)
        _require_fulfilled(call)
        texts, targets = self._texts(given), given.texts("to")
        if not targets or not all(targets) or len(texts) * len(targets) > self._max_texts:
            raise bad_request("to", f"must be given, with at most {self._max_texts} texts times languages")
        options = _options(given) | unserved(given.scalar(UNSERVED))
        source = unless_automatic(given.text("from"))
        return TranslationJob(texts=texts, source=source, target=targets[0], options=options), targets

    async def issue_token(self, call: Call) -> Response:
        """Answer /sts/v1.0/issueToken: the key itself is the token that clients then send in its place."""
        key = key_in(call.headers) or call.parameters.text("subscription-key")
        if key:
            await call.client.list_models(timeout=call.seconds)
        headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
        return Response(key or _NO_KEY, media_type="text/plain", headers=headers)

    async def detect(self, call: Call) -> Response:
        """Answer /detect."""
        _require_version(call.parameters)
        call.ignore_others({_VERSION})
        texts = await call.apart(partial(self._texts, call.parameters))
        pairs = targets_by_source(await call.client.list_models(timeout=call.seconds))
        detections = await call.client.detect_languages(texts, timeout=call.seconds)
        for index, languages in enumerate(detections):
            if not languages:
                raise bad_request(f"body[{index}]", "must be a text that tells its language")
        return JSONResponse([_detected(languages, pairs) for languages in detections])

    async def languages(self, call: Call) -> Response:
        """Answer /languages: those of texts to translate; there are no others."""
        given = call.parameters
        _require_version(given)
        call.ignore_others({_VERSION, "scope"})
        scopes = [each.strip() for each in (given.text("scope") or ",".join(_SCOPES)).split(",")]
        if not set(scopes) <= set(_SCOPES):
            raise bad_request("scope", f"must be some of {', '.join(_SCOPES)}")
        models = await call.client.list_models(timeout=call.seconds)
        pairs, pivoted = targets_by_source(models), pivoted_targets(models)
        codes = sorted({*pairs, *(target for targets in pairs.values() for target in targets)})
        listed: dict[str, Any] = {scope: {} for scope in scopes}
        if "translation" in listed:
            listed["translation"] = {
                code: _described(code) | listed_pivots("pivoted_targets", pivoted.get(code, ())) for code in codes
            }
        return JSONResponse(listed)

    def _texts(self, given: Parameters) -> list[str]:
        elements = given.elements
        if elements is None:
            raise bad_request("body", 'must be a list of objects: [{"Text": …}]')
        checked_texts(elements, field="body", maximum=self._max_texts)
        return [_text(each, index) for index, each in enumerate(elements)]


def _fits(given: Parameters) -> bool:
    return _VERSION in given.names


def _require_version(given: Parameters) -> None:
    if given.text(_VERSION) != "3.0":
        raise bad_request(_VERSION, "must be 3.0")


def _require_fulfilled(call: Call) -> None:
    """Refuse parameters that would change the answer, and note others without an effect."""
    given = call.parameters
    call.ignore_others(_READ | _FULFILLED.keys())
    for name, values in _FULFILLED.items():
        value = given.scalar(name)
        if values is not None and value is not None and value.lower() not in values:
            shown = f"only as {' or '.join(sorted(values))}" if values else "by no model here"
            raise bad_request(name, f"is supported {shown}")


def _text(element: object, index: int) -> str:
    named = {name.lower(): value for name, value in element.items()} if isinstance(element, dict) else {}
    text = named.get("text")
    if not isinstance(text, str):
        raise bad_request(f"body[{index}]", "must be an object with a string, Text")
    return text


def _options(given: Parameters) -> TranslateOptions:
    form, category = given.choice("textType", _FORMATS) or "plain", given.text("category")
    return _FORMATS[form] | {"model": None if category in (None, "general") else category}


def _translated(row: tuple[Translated, ...], targets: list[str], *, is_detected: bool) -> dict[str, Any]:
    translations = [{"text": each.text, "to": target} for each, target in zip(row, targets, strict=True)]
    if not is_detected:
        return {"translations": translations}
    detected = {"language": row[0].source or base(targets[0]), "score": row[0].confidence or 0.0}
    return {"detectedLanguage": detected, "translations": translations}


def _detected(languages: list[DetectedLanguage], sources: Mapping[str, Any]) -> dict[str, Any]:
    listed = [
        {
            "language": each.code,
            "score": each.confidence,
            "isTranslationSupported": source_for(each.code, sources) is not None,
            "isTransliterationSupported": False,
        }
        for each in languages
    ]
    return listed[0] | ({"alternatives": listed[1:]} if len(listed) > 1 else {})


def _described(code: str) -> dict[str, str]:
    direction = "rtl" if base(code) in _FROM_RIGHT else "ltr"
    return {"name": name_of(code), "nativeName": own_name_of(code), "dir": direction}
