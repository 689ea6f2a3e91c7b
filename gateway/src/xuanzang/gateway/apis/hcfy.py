"""The custom source of hcfy, a browser extension that names languages in Chinese and offers two targets."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from xuanzang.client import StatusCode, TranslateOptions, TranslationError
from xuanzang.gateway.apis.deeplx import KEY_HINT
from xuanzang.gateway.entry.endpoints import Api, ApiStyle, Call, routes_of
from xuanzang.gateway.entry.parameters import UNSERVED, required_text, unserved
from xuanzang.gateway.errors import Fault, bad_request
from xuanzang.gateway.languages import base, chinese_name_of, code_of, targets_by_source, unless_automatic
from xuanzang.gateway.translation import TranslationJob, translate

_NAMES: Mapping[str, str] = MappingProxyType(
    {"contents": "text", "source_language_code": "source", "target_language_code": "destination"}
)
_PARAMETERS = frozenset({"text", "source", "destination", "name", "token", UNSERVED})
_MAX_DESTINATIONS = 16


def render(fault: Fault) -> Response:
    """Return an error; the extension shows the message."""
    error = {"error": fault.named(_NAMES).description}
    return JSONResponse(error, fault.status_without_404, headers=fault.headers)


class Hcfy(Api):
    """Handler of the call."""

    @property
    def routes(self) -> list[Route]:
        """Address of the call."""
        style = ApiStyle(name="hcfy", render=render, key_parameters=("token",), key_hint=KEY_HINT)
        return routes_of([("POST", "/hcfy", self.translate)], style, self._state)

    async def translate(self, call: Call) -> Response:
        """Answer /hcfy: into the first language of two or, if the text is in it, into the second."""
        given = call.parameters
        call.ignore_others(_PARAMETERS)
        text, destinations = required_text(given, "text"), given.texts("destination")
        if not 0 < len(destinations) <= _MAX_DESTINATIONS:
            raise bad_request("destination", f"must be 1 to {_MAX_DESTINATIONS} names of languages")
        pairs = targets_by_source(await call.client.list_models(timeout=call.seconds))
        served = sorted({*pairs, *(target for targets in pairs.values() for target in targets)})
        source = unless_automatic(given.text("source"))
        source = code_of(source, served) if source else await _detected(call, text)
        targets = [code_of(each, served) for each in destinations]
        target = next((each for each in targets if base(each) != base(source or "")), targets[0])
        options = TranslateOptions() | unserved(given.scalar(UNSERVED))
        named = source if given.text("source") else None
        job = TranslationJob(texts=[text], source=named, target=target, options=options)
        (result,) = await translate(call, job)
        return JSONResponse(
            {
                "text": text,
                "from": chinese_name_of(result.source or source or target),
                "to": chinese_name_of(target),
                "result": result.text.split("\n"),
            }
        )


async def _detected(call: Call, text: str) -> str | None:
    """Return the language of a text; None: nothing tells it, or the server does not detect languages."""
    try:
        (found,) = await call.client.detect_languages([text], timeout=call.seconds)
    except TranslationError as error:
        if error.code is StatusCode.UNIMPLEMENTED:
            return None
        raise
    return found[0].code if found else None
