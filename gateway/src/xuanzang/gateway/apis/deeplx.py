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
from xuanzang.gateway.entry.parameters import UNSERVED, Parameters, required_text, unserved
from xuanzang.gateway.errors import Fault
from xuanzang.gateway.languages import base, unless_automatic
from xuanzang.gateway.translation import Translated, TranslationJob, answered

_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "contents": "text",
        "source_language_code": "source_lang",
        "target_language_code": "target_lang",
        "content_format": "tag_handling",
    }
)
KEY_HINT = "?token=KEY, or the header authorization: Bearer KEY"
"""Place of the key in programs whose only field is an address."""
_PARAMETERS = frozenset({"text", "source_lang", "target_lang", "tag_handling"})


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
        style = ApiStyle(name="deeplx", render=render, key_parameters=("token",), key_hint=KEY_HINT)
        return {"/translate": Variant(fits=_fits, handler=self.translate, style=style)}

    async def translate(self, call: Call) -> Response:
        """Answer /translate."""
        return await answered(call, _read, self._written)

    def _written(self, job: TranslationJob, results: list[Translated]) -> dict[str, object]:
        (result,) = results
        return {
            "code": HTTPStatus.OK,
            "id": next(self._numbers),
            "data": result.text,
            "alternatives": [each.text for each in result.translation.hypotheses[1:]],
            "source_lang": base(result.source or job.target).upper(),
            "target_lang": job.target,
            "method": "Free",
        }


def _read(call: Call) -> TranslationJob:
    given = call.parameters
    call.ignore_others(_PARAMETERS | {"token", UNSERVED})
    return TranslationJob(
        texts=[required_text(given, "text")],
        source=unless_automatic(given.text("source_lang")),
        target=required_text(given, "target_lang"),
        options=_options(given) | unserved(given.scalar(UNSERVED)),
    )


def _fits(given: Parameters) -> bool:
    return bool(given.names & _PARAMETERS)


def _options(given: Parameters) -> TranslateOptions:
    tags = given.choice("tag_handling", ("html", "xml"))
    return {"content_format": cast("ContentFormat", tags)} if tags else {}
