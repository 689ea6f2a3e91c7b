"""Google Cloud Translation v3 over HTTP: the calls of `v3`, with their messages as JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

from google.cloud.translate_v3.types import translation_service as types
from google.protobuf import json_format
from google.protobuf.message import Message
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from xuanzang.gateway.apis.google.errors import STYLE, require_json
from xuanzang.gateway.apis.google.v3 import GoogleV3
from xuanzang.gateway.entry.endpoints import Call, SharedState, routes_of
from xuanzang.gateway.entry.parameters import MAX_INT32, json_object, whole_number
from xuanzang.gateway.errors import Fault, RefusedError

_Answer = Callable[[Any, Call], Awaitable[Message]]
# Parameters that clients add to addresses: the key, and the form of the answer.
_OF_ADDRESSES = frozenset({"$alt", "alt", "key", "prettyPrint", "$prettyPrint", "quotaUser", "fields"})


class GoogleV3Http:
    """Handlers of the calls."""

    def __init__(self, v3: GoogleV3, state: SharedState) -> None:
        """Make the handlers."""
        self._v3 = v3
        self._state = state

    @property
    def routes(self) -> list[Route]:
        """Addresses of the calls."""
        v3, project, location = self._v3, "/v3/{parent:path}", "/v3/projects/{project}/locations/{location}"
        return [
            self._route("POST", f"{project}:translateText", types.TranslateTextRequest, v3.translate_text),
            self._route("POST", f"{project}:detectLanguage", types.DetectLanguageRequest, v3.detect_language),
            self._route(
                "GET", f"{project}/supportedLanguages", types.GetSupportedLanguagesRequest, v3.supported_languages
            ),
            self._route("GET", f"{location}/glossaries", types.ListGlossariesRequest, v3.list_glossaries),
            self._route("GET", f"{location}/glossaries/{{glossary}}", types.GetGlossaryRequest, v3.get_glossary),
            self._route(
                "DELETE", f"{location}/glossaries/{{glossary}}", types.DeleteGlossaryRequest, v3.delete_glossary
            ),
        ]

    def _route(self, method: str, path: str, kind: Any, answer: _Answer) -> Route:
        style = replace(STYLE, reads_parameters=False)

        async def handle(call: Call) -> Response:
            request = await call.apart(partial(_read, kind.pb(), call))
            made = await answer(request, call)
            return await call.apart(lambda: JSONResponse(json_format.MessageToDict(made)))

        return routes_of([(method, path, handle)], style, self._state)[0]


def _read(kind: type[Message], call: Call) -> Message:
    """Read a message: its body is JSON, the address names parent or name, and a query has single fields."""
    require_json(call.parameters)
    fields: dict[str, Any] = json_object(call.body) if call.body else {}
    fields |= {name: call.parameters.text(name) or "" for name in call.parameters.names - _OF_ADDRESSES}
    for each in kind.DESCRIPTOR.fields:
        for name in {each.name, each.json_name} & fields.keys() if each.cpp_type == each.CPPTYPE_INT32 else ():
            fields[name] = whole_number(fields[name], field=each.name, minimum=-MAX_INT32, maximum=MAX_INT32)
    resource = "parent" if "parent" in kind.DESCRIPTOR.fields_by_name else "name"
    fields[resource] = _resource(call.path)
    try:
        return json_format.ParseDict(fields, kind())
    except (json_format.ParseError, OverflowError) as error:
        # Its message quotes values of the caller at most, and goes to no log.
        fault = Fault(status=HTTPStatus.BAD_REQUEST, message=f"the request is not valid: {str(error)[:300]}")
        raise RefusedError(fault) from error


def _resource(path: Mapping[str, str]) -> str:
    if "parent" in path:
        return path["parent"]
    location = f"projects/{path['project']}/locations/{path['location']}"
    return f"{location}/glossaries/{path['glossary']}" if "glossary" in path else location
