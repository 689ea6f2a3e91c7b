"""MTranServer's API, which zotero-pdf-translate and STranslate know, and that of kiss-translator, which it has, too."""

from __future__ import annotations

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
from xuanzang.gateway.errors import Fault, RefusedError, bad_request
from xuanzang.gateway.languages import base, unless_automatic
from xuanzang.gateway.translation import Translated, TranslationJob, translate

_NAMES: Mapping[str, str] = MappingProxyType({"source_language_code": "from", "target_language_code": "to"})
_PARAMETERS = frozenset({"from", "to", "token", UNSERVED})


def render(fault: Fault) -> Response:
    """Return an error in MTranServer's form."""
    return JSONResponse({"error": fault.named(_NAMES).description}, fault.status_without_404, headers=fault.headers)


class MTranServer(Api):
    """Handlers of the API."""

    def __init__(self, state: SharedState) -> None:
        """Make the handlers."""
        super().__init__(state)
        self._style = ApiStyle(name="mtranserver", render=render, key_parameters=("token",))

    @property
    def variants(self) -> Mapping[str, Variant]:
        """Calls, by the addresses that they share with other APIs."""
        return {"/translate": Variant(fits=_fits, handler=self.translate, style=self._style)}

    @property
    def routes(self) -> list[Route]:
        """Addresses that are only its own."""
        kiss = ApiStyle(name="kiss_translator", render=render, key_parameters=("token",))
        return [
            Route("/translate/batch", Endpoint(self.batch, self._style, self._state), methods=["POST"]),
            Route("/kiss", Endpoint(self.kiss, kiss, self._state), methods=["POST"]),
        ]

    async def translate(self, call: Call) -> Response:
        """Answer /translate."""
        require_known(call.parameters, _PARAMETERS | {"text", "html"})
        text = required_text(call.parameters, "text")
        (result,) = await _translated(call, [text], field="text")
        return JSONResponse({"result": result.text})

    async def batch(self, call: Call) -> Response:
        """Answer /translate/batch."""
        require_known(call.parameters, _PARAMETERS | {"texts", "html"})
        texts = checked_texts(call.parameters.texts("texts"), field="texts", maximum=self._max_texts)
        results = await _translated(call, texts, field="texts")
        return JSONResponse({"results": [each.text for each in results]})

    async def kiss(self, call: Call) -> Response:
        """Answer /kiss: one text, or several."""
        given = call.parameters
        require_known(given, _PARAMETERS | {"text", "texts"})
        if {"text", "texts"} <= given.names:
            raise bad_request("texts", "must not be given beside text")
        if "texts" not in given.names:
            (result,) = await _translated(call, [required_text(given, "text")], field="text")
            return JSONResponse(_for_kiss(result, given))
        texts = checked_texts(given.texts("texts"), field="texts", maximum=self._max_texts)
        results = await _translated(call, texts, field="texts")
        return JSONResponse({"translations": [_for_kiss(each, given) for each in results]})


def _fits(given: Parameters) -> bool:
    return bool(given.names & {"from", "to"})


async def _translated(call: Call, texts: Sequence[str], *, field: str) -> list[Translated]:
    given = call.parameters
    job = TranslationJob(
        texts=texts,
        source=unless_automatic(given.text("from")),
        target=required_text(given, "to"),
        options=_options(given) | unserved(given.scalar(UNSERVED)),
        timeout=call.seconds,
    )
    try:
        return await translate(call.client, job)
    except RefusedError as error:
        raise RefusedError(error.fault.named({"contents": field})) from error


def _options(given: Parameters) -> TranslateOptions:
    value = (given.scalar("html") or "0").lower()
    if value not in ("0", "1", "false", "true"):
        raise bad_request("html", "must be true or false")
    return {"content_format": "html"} if value in ("1", "true") else {}


def _for_kiss(result: Translated, given: Parameters) -> dict[str, str]:
    return {"text": result.text, "src": result.source or base(required_text(given, "to"))}
