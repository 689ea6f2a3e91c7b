"""DeepLX's API, which read-frog, Pot, pdf2zh, Bob and others send texts to, one at a time."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import cast

from starlette.responses import JSONResponse, Response

from xuanzang.client import ContentFormat, TranslateOptions
from xuanzang.gateway.entry.endpoints import ApiStyle, Call, Variant
from xuanzang.gateway.entry.parameters import UNSERVED, Parameters, require_known, required_text, unserved
from xuanzang.gateway.errors import Fault, bad_request
from xuanzang.gateway.languages import base, unless_automatic
from xuanzang.gateway.translation import TranslationJob, translate

_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "contents": "text",
        "source_language_code": "source_lang",
        "target_language_code": "target_lang",
        "content_format": "tag_handling",
    }
)
_OWN = frozenset({"text", "source_lang", "target_lang", "tag_handling"})


def render(fault: Fault) -> Response:
    """Return an error in DeepLX's form."""
    status = fault.status_without_404
    return JSONResponse({"code": status, "message": fault.named(_NAMES).description}, status, headers=fault.headers)


class DeepLX:
    """Handler of the API, whose address LibreTranslate has, too."""

    def __init__(self) -> None:
        """Make the handler."""
        self._numbers = itertools.count(1)

    @property
    def variants(self) -> Mapping[str, Variant]:
        """Calls, by their addresses."""
        style = ApiStyle(name="deeplx", render=render, key_parameters=("token",))
        return {"/translate": Variant(fits=_fits, handler=self.translate, style=style)}

    async def translate(self, call: Call) -> Response:
        """Answer /translate."""
        given = call.parameters
        require_known(given, _OWN | {"token", UNSERVED})
        target = required_text(given, "target_lang")
        job = TranslationJob(
            texts=[required_text(given, "text")],
            source=unless_automatic(given.text("source_lang")),
            target=target,
            options=_options(given) | unserved(given.scalar(UNSERVED)),
            timeout=call.seconds,
        )
        (result,) = await translate(call.client, job)
        return JSONResponse(
            {
                "code": HTTPStatus.OK,
                "id": next(self._numbers),
                "data": result.text,
                "alternatives": [each.text for each in result.translation.hypotheses[1:]],
                "source_lang": base(result.source or target).upper(),
                "target_lang": target,
                "method": "Free",
            }
        )


def _fits(given: Parameters) -> bool:
    return bool(given.names & _OWN)


def _options(given: Parameters) -> TranslateOptions:
    tags = given.text("tag_handling")
    if tags is None:
        return {}
    if tags not in ("html", "xml"):
        raise bad_request("tag_handling", 'must be "html" or "xml"')
    return {"content_format": cast("ContentFormat", tags)}
