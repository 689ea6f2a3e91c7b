"""Apertium APY's call to translate, which OmegaT makes with GET."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType

from starlette.responses import JSONResponse, Response

from xuanzang.client import TranslateOptions
from xuanzang.gateway.entry.endpoints import ApiStyle, Call, Variant
from xuanzang.gateway.entry.parameters import TRUTH_VALUES, UNSERVED, Parameters, required_text, unserved
from xuanzang.gateway.errors import Fault, bad_request
from xuanzang.gateway.languages import unless_automatic
from xuanzang.gateway.translation import Translated, TranslationJob, answered

_NAMES: Mapping[str, str] = MappingProxyType(
    {"contents": "q", "source_language_code": "langpair", "target_language_code": "langpair"}
)
_FORMATS: Mapping[str, TranslateOptions] = MappingProxyType({"txt": {}, "html": {"content_format": "html"}})
# markUnknown stars words that a dictionary lacks; there is none here, so that both of its values are fulfilled.
_PARAMETERS = frozenset({"q", "langpair", "markUnknown", "format", "key", UNSERVED})


def render(fault: Fault) -> Response:
    """Return an error in Apertium's form."""
    status, explanation = fault.status_without_404, fault.named(_NAMES).description
    error = {"status": "error", "code": status, "message": status.phrase, "explanation": explanation}
    return JSONResponse(error, status, headers=fault.headers)


class Apertium:
    """Handler of the call, at the address of LibreTranslate's."""

    def __init__(self) -> None:
        """Make the handler."""
        self._style = ApiStyle(
            name="apertium", render=render, key_parameters=("key",), key_hint="the parameter key=KEY"
        )

    @property
    def variants(self) -> Mapping[str, Variant]:
        """The call, by the address that it shares with other APIs."""
        return {"/translate": Variant(fits=_fits, handler=self.translate, style=self._style)}

    async def translate(self, call: Call) -> Response:
        """Answer /translate."""
        return await answered(call, _read, _written)


def _read(call: Call) -> TranslationJob:
    given = call.parameters
    call.ignore_others(_PARAMETERS)
    given.choice("markUnknown", (*TRUTH_VALUES, "no", "yes"))
    form = given.choice("format", _FORMATS) or "txt"
    source, bar, target = required_text(given, "langpair").replace("_", "-").partition("|")
    if not (source and bar and target):
        raise bad_request("langpair", "must be two codes of languages with | between them, such as zh|en")
    return TranslationJob(
        texts=[required_text(given, "q")],
        source=unless_automatic(source),
        target=target,
        options=_FORMATS[form] | unserved(given.scalar(UNSERVED)),
    )


def _written(_: TranslationJob, results: list[Translated]) -> dict[str, object]:
    (result,) = results
    answer = {"translatedText": result.text}
    return {"responseData": answer, "responseDetails": None, "responseStatus": HTTPStatus.OK}


def _fits(given: Parameters) -> bool:
    return "langpair" in given.names
