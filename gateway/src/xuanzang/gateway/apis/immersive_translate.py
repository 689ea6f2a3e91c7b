"""The custom API of immersive-translate: lists of texts, whose tags it has replaced by placeholders."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from xuanzang.client import TranslateOptions
from xuanzang.gateway.apis.deeplx import KEY_HINT
from xuanzang.gateway.entry.endpoints import Api, ApiStyle, Call, SharedState, Variant, routes_of
from xuanzang.gateway.entry.parameters import (
    UNSERVED,
    Parameters,
    checked_texts,
    required_text,
    unserved,
)
from xuanzang.gateway.errors import Fault
from xuanzang.gateway.languages import base, unless_automatic
from xuanzang.gateway.translation import Translated, TranslationJob, answered

_NAMES: Mapping[str, str] = MappingProxyType(
    {"contents": "text_list", "source_language_code": "source_lang", "target_language_code": "target_lang"}
)
_PARAMETERS = frozenset({"text_list", "source_lang", "target_lang", "token", UNSERVED})
# Its placeholders are tags of these names, in text that is otherwise not escaped.
_PLACEHOLDER = re.compile(r"</?b[0-9]{1,9}\s{0,9}/?>")
_ESCAPED_PLACEHOLDER = re.compile(r"&lt;(/?b[0-9]{1,9}\s{0,9}/?)&gt;")


def render(fault: Fault) -> Response:
    """Return an error; the API defines no form for it."""
    return JSONResponse({"error": fault.named(_NAMES).description}, fault.status_without_404, headers=fault.headers)


class ImmersiveTranslate(Api):
    """Handler of the API, at its own address and at LibreTranslate's."""

    def __init__(self, state: SharedState) -> None:
        """Make the handler."""
        super().__init__(state)
        self._style = ApiStyle(name="immersive_translate", render=render, key_parameters=("token",), key_hint=KEY_HINT)

    @property
    def variants(self) -> Mapping[str, Variant]:
        """Calls, by the addresses that they share with other APIs."""
        return {"/translate": Variant(fits=_fits, handler=self.translate, style=self._style)}

    @property
    def routes(self) -> list[Route]:
        """Addresses that are only its own, which are MTranServer's."""
        return routes_of([("POST", "/imme", self.translate)], self._style, self._state)

    async def translate(self, call: Call) -> Response:
        """Answer /imme."""
        return await answered(call, self._read, _written)

    def _read(self, call: Call) -> TranslationJob:
        given = call.parameters
        call.ignore_others(_PARAMETERS)
        texts, options = _prepared(checked_texts(given.texts("text_list"), field="text_list", maximum=self._max_texts))
        return TranslationJob(
            texts=texts,
            source=unless_automatic(given.text("source_lang")),
            target=required_text(given, "target_lang"),
            options=options | unserved(given.scalar(UNSERVED)),
        )


def _written(job: TranslationJob, results: list[Translated]) -> dict[str, object]:
    is_escaped = "content_format" in job.options
    return {
        "translations": [
            {
                "detected_source_lang": each.source or base(job.target),
                "text": html.unescape(each.text) if is_escaped else each.text,
            }
            for each in results
        ]
    }


def _fits(given: Parameters) -> bool:
    return "text_list" in given.names


def _prepared(texts: Sequence[str]) -> tuple[list[str], TranslateOptions]:
    """Return texts and their format, which is HTML if one of them has placeholders."""
    if not any(map(_PLACEHOLDER.search, texts)):
        return list(texts), {}
    escaped = [_ESCAPED_PLACEHOLDER.sub(_unescaped, html.escape(each, quote=False)) for each in texts]
    return escaped, {"content_format": "html"}


def _unescaped(placeholder: re.Match[str]) -> str:
    return f"<{placeholder[1]}>"
