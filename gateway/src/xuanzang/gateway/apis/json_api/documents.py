"""Documents of the gateway's own API: a file comes as the body and goes back translated."""

from __future__ import annotations

import asyncio
import json
import re
from http import HTTPStatus
from pathlib import PurePath
from urllib.parse import quote

from starlette.responses import Response
from starlette.routing import Route

from xuanzang.client import DocumentTranslation, TranslateOptions
from xuanzang.documents import SUFFIXES, DocumentError, DocumentSummary
from xuanzang.gateway.apis.json_api.calls import render
from xuanzang.gateway.documents.translator import DocumentTranslator
from xuanzang.gateway.entry.endpoints import ApiStyle, Call, SharedState, routes_of
from xuanzang.gateway.entry.parameters import UNSERVED, unserved
from xuanzang.gateway.errors import Fault, RefusedError, bad_request

SUMMARY = "x-document-summary"
"""Header of the answer: a summary, as JSON."""

_NAMES = ("name", "source_language", "target_language", "model", "glossary_name", "column", UNSERVED)
_LANGUAGE = re.compile(r"[A-Za-z0-9-]{1,64}")
_MAX_NAME = 255
_MAX_COLUMNS = 64
_SHOWN_REFUSALS = 10


class Documents:
    """Handler of documents."""

    def __init__(self, state: SharedState, translator: DocumentTranslator) -> None:
        """Make the handler."""
        self._state = state
        self._settings = state.settings
        self._translator = translator

    @property
    def routes(self) -> list[Route]:
        """Address of documents."""
        style = ApiStyle(name="json", render=render, reads_parameters=False)
        return routes_of(
            [("POST", "/v1/documents", self.translate)],
            style,
            self._state,
            limit=self._state.limits.uploads,
            max_bytes=self._settings.max_document_bytes,
            seconds=self._settings.document_timeout_seconds,
        )

    async def translate(self, call: Call) -> Response:
        """Answer /v1/documents."""
        name, options = _name(call), _options(call)
        with self._state.limits.translations.held(call.caller.holder):
            translation = await self._translated(call, name, options)
        headers = {
            SUMMARY: json.dumps(_summary(translation.summary)),
            "content-disposition": f"attachment; filename*=UTF-8''{quote(_target_name(name, options))}",
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
        }
        return Response(translation.content, media_type="application/octet-stream", headers=headers)

    async def _translated(self, call: Call, name: PurePath, options: TranslateOptions) -> DocumentTranslation:
        seconds = self._settings.document_timeout_seconds
        columns = call.parameters.texts("column")
        if len(columns) > _MAX_COLUMNS:
            raise bad_request("column", f"must be given at most {_MAX_COLUMNS} times")
        try:
            async with asyncio.timeout(seconds):
                return await self._translator.translate(
                    call.body,
                    options,
                    suffix=name.suffix.lower(),
                    client=call.client,
                    holder=call.caller.holder,
                    columns=columns,
                )
        except DocumentError as error:
            raise bad_request("body", str(error).removeprefix("the document: ")) from error
        except TimeoutError as error:
            message = f"the document was not translated within {seconds:g} seconds"
            raise RefusedError(Fault(status=HTTPStatus.GATEWAY_TIMEOUT, message=message)) from error


def _name(call: Call) -> PurePath:
    """Return the name of the file, which tells its format."""
    for name in sorted(call.parameters.names - set(_NAMES)):
        raise bad_request(name[:64], f"is no parameter; those are {', '.join(_NAMES)}")
    name = PurePath((call.parameters.text("name") or "").replace("\\", "/")).name
    if not name or len(name) > _MAX_NAME:
        raise bad_request("name", f"must be the name of the file, of at most {_MAX_NAME} characters")
    if PurePath(name).suffix.lower() not in SUFFIXES:
        raise bad_request("name", f"must end in one of {' '.join(SUFFIXES)}")
    return PurePath(name)


def _options(call: Call) -> TranslateOptions:
    for field in ("source_language", "target_language"):
        code = call.parameters.text(field)
        if code is not None and not _LANGUAGE.fullmatch(code):
            raise bad_request(field, "must be a BCP-47 code, such as zh")
    target = call.parameters.text("target_language")
    if target is None:
        raise bad_request("target_language", "must be given")
    options = TranslateOptions(
        source_language=call.parameters.text("source_language"),
        target_language=target,
        model=call.parameters.text("model"),
        glossary_name=call.parameters.text("glossary_name"),
    )
    return options | unserved(call.parameters.scalar(UNSERVED))


def _target_name(name: PurePath, options: TranslateOptions) -> str:
    return f"{name.stem}.{options['target_language']}{name.suffix}"


def _summary(summary: DocumentSummary) -> dict[str, object]:
    return {
        "texts": summary.units,
        "asked": summary.asked,
        "characters": summary.characters,
        "sentences": summary.sentences,
        "refused": len(summary.refusals),
        "refusals": [
            {"where": each.where[:200], "message": each.message[:200]} for each in summary.refusals[:_SHOWN_REFUSALS]
        ],
    }
