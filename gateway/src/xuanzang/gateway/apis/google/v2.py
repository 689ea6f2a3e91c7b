"""Google Cloud Translation v2: what most programs use, with a key as parameter of the address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from xuanzang.client import ContentFormat, DetectedLanguage, TranslateOptions
from xuanzang.gateway.apis.google.errors import STYLE, render, require_json
from xuanzang.gateway.apis.google.names import Languages, display_names, served_model
from xuanzang.gateway.entry.endpoints import Api, Call, routes_of
from xuanzang.gateway.entry.parameters import UNSERVED, checked_texts, unserved
from xuanzang.gateway.errors import Fault, bad_request
from xuanzang.gateway.languages import listed_pivots, source_for, unless_automatic
from xuanzang.gateway.translation import Translated, TranslationJob, answered

_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "contents": "q",
        "source_language_code": "source",
        "target_language_code": "target",
        "content_format": "format",
    }
)
# Parameters that clients add to any address, and a list that the official client sends empty.
_HARMLESS = frozenset({"key", "cid", "alt", "$alt", "prettyPrint", "quotaUser", "fields", "userIp"})
_GENERAL_MODELS = ("base", "nmt")
_READ = frozenset({"q", "source", "target", "format", "model", UNSERVED})


def _render(fault: Fault) -> Response:
    return render(fault.named(_NAMES))


class GoogleV2(Api):
    """Handlers of the calls."""

    @property
    def routes(self) -> list[Route]:
        """Addresses of the API."""
        style = replace(STYLE, render=_render)
        root = "/language/translate/v2"
        handlers = (("", self.translate), ("/detect", self.detect), ("/languages", self.languages))
        return routes_of([("GET POST", root + path, handler) for path, handler in handlers], style, self._state)

    async def translate(self, call: Call) -> Response:
        """Answer /language/translate/v2."""
        given = call.parameters
        source, has_model = given.text("source"), given.text("model") is not None

        def written(_: TranslationJob, results: list[Translated]) -> object:
            listed = [_translation(each, source=source, has_model=has_model) for each in results]
            return {"data": {"translations": listed}}

        return await answered(call, self._read, written)

    def _read(self, call: Call) -> TranslationJob:
        given = call.parameters
        call.ignore_others(_READ | _HARMLESS)
        target, model = given.text("target"), given.text("model")
        if target is None:
            raise bad_request("target", "must be given")
        require_json(given)
        form = given.choice("format", ("html", "text")) or "html"
        named = None if model in (None, *_GENERAL_MODELS) else served_model(model or "", is_bare=True) or None
        options = TranslateOptions(content_format=cast("ContentFormat", form), model=named)
        return TranslationJob(
            texts=checked_texts(given.texts("q"), field="q", maximum=self._max_texts),
            source=unless_automatic(given.text("source")),
            target=target,
            options=options | unserved(given.scalar(UNSERVED)),
        )

    async def detect(self, call: Call) -> Response:
        """Answer /language/translate/v2/detect: "und" stands for no language."""
        call.ignore_others({"q", *_HARMLESS})
        require_json(call.parameters)
        texts = checked_texts(call.parameters.texts("q"), field="q", maximum=self._max_texts)
        found = await call.client.detect_languages(texts, timeout=call.seconds)
        listed = Languages(await call.client.list_models(timeout=call.seconds)).all
        return _data(detections=[[_likeliest(each, listed)] for each in found])

    async def languages(self, call: Call) -> Response:
        """Answer /language/translate/v2/languages: codes and, in the language `target`, names."""
        call.ignore_others({"target", "model", *_HARMLESS})
        require_json(call.parameters)
        languages = Languages(await call.client.list_models(timeout=call.seconds))
        naming = call.parameters.text("target")
        names = {} if naming is None else display_names(languages.all, naming, field="target")
        return _data(
            languages=[
                {"language": code}
                | ({"name": names[code]} if names else {})
                | listed_pivots("pivoted_targets", languages.pivoted_targets.get(code, ()))
                for code in languages.all
            ]
        )


def _translation(result: Translated, *, source: str | None, has_model: bool) -> dict[str, Any]:
    translation: dict[str, Any] = {"translatedText": result.text}
    if source is None:
        translation["detectedSourceLanguage"] = result.source or "und"
    if has_model:
        translation["model"] = f"{result.translation.model}/{result.translation.model_version}"
    return translation


def _likeliest(languages: Sequence[DetectedLanguage], listed: Iterable[str]) -> dict[str, Any]:
    if not languages:
        return {"language": "und", "confidence": 0.0, "isReliable": False}
    code = source_for(languages[0].code, listed) or languages[0].code
    return {"language": code, "confidence": languages[0].confidence, "isReliable": False}


def _data(**lists: list[Any]) -> Response:
    return JSONResponse({"data": lists})
