"""Addresses of Google's own page that extensions and scripts use: `translate_a/single` and `translate_a/t`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from xuanzang.client import TranslateOptions
from xuanzang.gateway.apis.google.errors import STYLE, render
from xuanzang.gateway.apis.google.names import google_code
from xuanzang.gateway.entry.endpoints import Api, Call, routes_of
from xuanzang.gateway.entry.parameters import UNSERVED, checked_texts, required_text, unserved
from xuanzang.gateway.errors import Fault
from xuanzang.gateway.languages import unless_automatic
from xuanzang.gateway.translation import Translated, TranslationJob, answered

_NAMES: Mapping[str, str] = MappingProxyType(
    {"contents": "q", "source_language_code": "sl", "target_language_code": "tl", "content_format": "format"}
)
_READ = frozenset({"q", "sl", "tl", "dj", "format", "key", UNSERVED})
# Parameters of the page itself: its name, its own language, and tokens of its protection.
_HARMLESS = frozenset({"client", "dt", "hl", "ie", "oe", "tk", "ts", "otf", "ssel", "tsel", "kc", "source", "v", "tc"})


class GoogleWeb(Api):
    """Handlers of the calls."""

    @property
    def routes(self) -> list[Route]:
        """Addresses of the calls."""
        style = replace(STYLE, render=lambda fault: render(_named(fault)))
        calls = [("GET POST", "/translate_a/single", self.single), ("GET POST", "/translate_a/t", self.several)]
        return routes_of(calls, style, self._state)

    async def single(self, call: Call) -> Response:
        """Answer /translate_a/single: one text, as an object with `dj=1`, else as nested lists."""
        is_object = call.parameters.choice("dj", ("0", "1")) == "1"

        def written(job: TranslationJob, results: list[Translated]) -> object:
            (result,) = results
            return (_object if is_object else _lists)(job, result)

        return await answered(call, lambda call: self._read(call, 1), written)

    async def several(self, call: Call) -> Response:
        """Answer /translate_a/t: several texts, each with its language if that is detected."""

        def written(job: TranslationJob, results: list[Translated]) -> object:
            return [each.text if job.source else [each.text, _source(each)] for each in results]

        return await answered(call, lambda call: self._read(call, self._max_texts), written)

    def _read(self, call: Call, maximum: int) -> TranslationJob:
        given = call.parameters
        call.ignore_others(_READ | _HARMLESS)
        form = given.choice("format", ("html", "text"))
        for name in ("ie", "oe"):
            given.choice(name, ("utf-8", "utf8"))
        options = TranslateOptions(content_format="html") if form == "html" else TranslateOptions()
        return TranslationJob(
            texts=checked_texts(given.texts("q"), field="q", maximum=maximum),
            source=unless_automatic(given.text("sl")),
            target=required_text(given, "tl"),
            options=options | unserved(given.scalar(UNSERVED)),
        )


def _lists(job: TranslationJob, result: Translated) -> list[Any]:
    source, confidence = job.source or _source(result), result.confidence
    sentences = [[result.text, job.texts[0], None, None, 1]]
    detected = [[source], None, [confidence], [source]]
    return [sentences, None, source, None, None, None, confidence, [], detected]


def _object(job: TranslationJob, result: Translated) -> dict[str, Any]:
    sentences = [{"trans": result.text, "orig": job.texts[0], "backend": 1}]
    return {"sentences": sentences, "src": job.source or _source(result), "confidence": result.confidence, "spell": {}}


def _source(result: Translated) -> str:
    return google_code(result.source) or "und"


def _named(fault: Fault) -> Fault:
    return fault.named(_NAMES)
