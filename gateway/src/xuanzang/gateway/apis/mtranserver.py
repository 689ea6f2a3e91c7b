"""MTranServer's API, which zotero-pdf-translate and STranslate know, and that of kiss-translator, which it has, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from xuanzang.client import TranslateOptions
from xuanzang.gateway.apis.deeplx import KEY_HINT
from xuanzang.gateway.entry.endpoints import Api, ApiStyle, Call, SharedState, Variant, routes_of
from xuanzang.gateway.entry.parameters import (
    TRUTH_VALUES,
    UNSERVED,
    Parameters,
    checked_texts,
    required_text,
    unserved,
)
from xuanzang.gateway.errors import Fault, RefusedError, bad_request
from xuanzang.gateway.languages import base, unless_automatic
from xuanzang.gateway.translation import Translated, TranslationJob, answered

_NAMES: Mapping[str, str] = MappingProxyType({"source_language_code": "from", "target_language_code": "to"})
_PARAMETERS = frozenset({"from", "html", "to", "token", UNSERVED})


def render(fault: Fault) -> Response:
    """Return an error in MTranServer's form."""
    return JSONResponse({"error": fault.named(_NAMES).description}, fault.status_without_404, headers=fault.headers)


class MTranServer(Api):
    """Handlers of the API."""

    def __init__(self, state: SharedState) -> None:
        """Make the handlers."""
        super().__init__(state)
        self._style = ApiStyle(name="mtranserver", render=render, key_parameters=("token",), key_hint=KEY_HINT)

    @property
    def variants(self) -> Mapping[str, Variant]:
        """Calls, by the addresses that they share with other APIs."""
        return {"/translate": Variant(fits=_fits, handler=self.translate, style=self._style)}

    @property
    def routes(self) -> list[Route]:
        """Addresses that are only its own."""
        kiss = ApiStyle(name="kiss_translator", render=render, key_parameters=("token",), key_hint=KEY_HINT)
        return [
            *routes_of([("POST", "/translate/batch", self.batch)], self._style, self._state),
            *routes_of([("POST", "/kiss", self.kiss)], kiss, self._state),
        ]

    async def translate(self, call: Call) -> Response:
        """Answer /translate."""
        return await _answered(call, "text", self._max_texts, lambda texts: {"result": texts[0]["text"]})

    async def batch(self, call: Call) -> Response:
        """Answer /translate/batch."""
        return await _answered(
            call, "texts", self._max_texts, lambda texts: {"results": [each["text"] for each in texts]}
        )

    async def kiss(self, call: Call) -> Response:
        """Answer /kiss: one text, or several."""
        if {"text", "texts"} <= call.parameters.names:
            raise bad_request("texts", "must not be given beside text")
        if "texts" in call.parameters.names:
            return await _answered(call, "texts", self._max_texts, lambda texts: {"translations": texts})
        return await _answered(call, "text", self._max_texts, lambda texts: texts[0])


def _fits(given: Parameters) -> bool:
    return bool(given.names & {"from", "to"})


async def _answered(call: Call, field: str, maximum: int, write: Callable[[list[dict[str, str]]], object]) -> Response:
    """Answer a call whose texts are in a field.

    Args:
        maximum: Maximum number of texts.
        write: Function from texts, with their languages, to what the response holds.
    """

    def read(call: Call) -> TranslationJob:
        given = call.parameters
        call.ignore_others(_PARAMETERS | {field})
        texts = [required_text(given, field)] if field == "text" else given.texts(field)
        return TranslationJob(
            texts=checked_texts(texts, field=field, maximum=maximum),
            source=unless_automatic(given.text("from")),
            target=required_text(given, "to"),
            options=_options(given) | unserved(given.scalar(UNSERVED)),
        )

    def written(job: TranslationJob, results: list[Translated]) -> object:
        return write([{"text": each.text, "src": each.source or base(job.target)} for each in results])

    try:
        return await answered(call, read, written)
    except RefusedError as error:
        raise RefusedError(error.fault.named({"contents": field})) from error


def _options(given: Parameters) -> TranslateOptions:
    return {"content_format": "html"} if given.choice("html", TRUTH_VALUES) in ("1", "true") else {}
