"""The custom API of immersive-translate: lists of texts, whose tags it has replaced by placeholders."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from xuanzang.client import TranslateOptions
from xuanzang.gateway.entry.endpoints import Api, ApiStyle, Call, Endpoint, SharedState, Variant
from xuanzang.gateway.entry.parameters import (
    UNSERVED,
    Parameters,
    checked_texts,
    require_known,
    required_text,
    unserved,
)
from xuanzang.gateway.errors import Fault
from xuanzang.gateway.languages import base, unless_automatic
from xuanzang.gateway.translation import TranslationJob, translate

_NAMES: Mapping[str, str] = MappingProxyType(
    {"contents": "text_list", "source_language_code": "source_lang", "target_language_code": "target_lang"}
)
_PARAMETERS = frozenset({"text_list", "source_lang", "target_lang", "token", UNSERVED})
# Its placeholders are tags of these names, in text that is otherwise not escaped.
_PLACEHOLDER = re.compile(r"</?b\d+\s*/?>")
_ESCAPED_PLACEHOLDER = re.compile(r"&lt;(/?b\d+\s*/?)&gt;")


def render(fault: Fault) -> Response:
    """Return an error; the API has no form of its own for one."""
    return JSONResponse({"error": fault.named(_NAMES).description}, fault.status_without_404, headers=fault.headers)


class ImmersiveTranslate(Api):
    """Handler of the API, at an address of its own and at that of LibreTranslate."""

    def __init__(self, state: SharedState) -> None:
        """Make the handler."""
        super().__init__(state)
        self._style = ApiStyle(name="immersive_translate", render=render, key_parameters=("token",))

    @property
    def variants(self) -> Mapping[str, Variant]:
        """Calls, by the addresses that they share with other APIs."""
        return {"/translate": Variant(fits=_fits, handler=self.translate, style=self._style)}

    @property
    def routes(self) -> list[Route]:
        """Addresses that are only its own, which are MTranServer's."""
        return [Route("/imme", Endpoint(self.translate, self._style, self._state), methods=["POST"])]

    async def translate(self, call: Call) -> Response:
        """Answer /imme."""
        given = call.parameters
        require_known(given, _PARAMETERS)
        texts = checked_texts(given.texts("text_list"), field="text_list", maximum=self._max_texts)
        target = required_text(given, "target_lang")
        sent, options = _prepared(texts)
        source = unless_automatic(given.text("source_lang"))
        asked = options | unserved(given.scalar(UNSERVED))
        job = TranslationJob(texts=sent, source=source, target=target, options=asked, timeout=call.seconds)
        results = await translate(call.client, job)
        answers = [html.unescape(each.text) if options else each.text for each in results]
        return JSONResponse(
            {
                "translations": [
                    {"detected_source_lang": each.source or base(target), "text": text}
                    for each, text in zip(results, answers, strict=True)
                ]
            }
        )


def _fits(given: Parameters) -> bool:
    return "text_list" in given.names


def _prepared(texts: Sequence[str]) -> tuple[list[str], TranslateOptions]:
    """Return texts with how they are to be read: as HTML if one of them has placeholders."""
    if not any(map(_PLACEHOLDER.search, texts)):
        return list(texts), {}
    escaped = [_ESCAPED_PLACEHOLDER.sub(r"<\1>", html.escape(each, quote=False)) for each in texts]
    return escaped, {"content_format": "html"}
