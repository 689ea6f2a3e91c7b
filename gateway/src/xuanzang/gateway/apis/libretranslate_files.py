"""Files of LibreTranslate's API: one call translates a file, and answers with the address to fetch it from."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from http import HTTPStatus

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from xuanzang.client import TranslateOptions
from xuanzang.gateway.apis.libretranslate import STYLE
from xuanzang.gateway.documents.store import DocumentState, DocumentStore
from xuanzang.gateway.documents.translator import DocumentTranslator
from xuanzang.gateway.documents.uploads import Upload, read_upload
from xuanzang.gateway.entry.endpoints import Call, SharedState, routes_of
from xuanzang.gateway.entry.parameters import UNSERVED, unserved
from xuanzang.gateway.errors import Fault, RefusedError

_READ = frozenset({"source", "target", UNSERVED})
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}")
_HEADER_HINT = "the header authorization: Bearer KEY"


class LibreTranslateFiles:
    """Handlers of files.

    Keys of uploads are taken from headers only, because nothing of a file is read before its caller is known.
    """

    def __init__(self, state: SharedState, store: DocumentStore, translator: DocumentTranslator) -> None:
        """Make the handlers."""
        self._state = state
        self._settings = state.settings
        self._store = store
        self._translator = translator

    @property
    def routes(self) -> list[Route]:
        """Addresses of files."""
        style = replace(STYLE, key_parameters=(), key_hint=_HEADER_HINT, reads_parameters=False)
        limits = {
            "limit": self._state.limits.uploads,
            "max_bytes": self._settings.max_document_bytes,
            "seconds": self._settings.document_timeout_seconds,
        }
        # The address has the secret of the file, so a browser can open it; logs have addresses without parameters.
        opened = replace(STYLE, needs_key=False)
        return [
            *routes_of([("POST", "/translate_file", self.translate)], style, self._state, **limits),
            *routes_of([("GET", "/download_file/{name}", self.download)], opened, self._state),
        ]

    async def translate(self, call: Call) -> Response:
        """Answer /translate_file once the file is translated."""
        holder = call.caller.holder
        self._store.require_room(holder)
        upload = await call.apart(partial(read_upload, call.headers, call.body))
        options, address = _options(upload, call.ignored), self._address(call)
        work = partial(
            self._translator.translate,
            upload.content,
            options,
            suffix=upload.suffix,
            client=call.client,
            holder=holder,
            columns=upload.columns,
        )
        document = self._store.add(work, holder=holder, suffix=upload.suffix)
        try:
            await document.settled.wait()
        except BaseException:
            self._store.drop(document)
            raise
        if document.state is DocumentState.FAILED:
            self._store.drop(document)
            raise RefusedError(Fault(status=HTTPStatus.BAD_REQUEST, message=document.reason))
        path = f"/download_file/{document.id}{document.suffix}?key={document.key}"
        return JSONResponse({"translatedFileUrl": f"{address}{path}"})

    async def download(self, call: Call) -> Response:
        """Answer /download_file/NAME: the file, once."""
        document = self._store.find(call.path["name"].partition(".")[0], call.parameters.text("key") or "")
        if document is None or document.translation is None:
            message = "there is no such file, or it was fetched, or is too old"
            return JSONResponse({"error": message}, HTTPStatus.NOT_FOUND)
        self._store.drop(document)
        headers = {
            "content-disposition": f'attachment; filename="translation{document.suffix}"',
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
        }
        return Response(document.translation.content, media_type="application/octet-stream", headers=headers)

    def _address(self, call: Call) -> str:
        """Return the address of the gateway, as its caller named it."""
        host = call.headers.get("host", "")
        if not _HOST.fullmatch(host):
            raise RefusedError(Fault(status=HTTPStatus.BAD_REQUEST, message="the header host must name the gateway"))
        is_https = self._settings.tls_certificate or call.headers.get("x-forwarded-proto") == "https"
        return f"{'https' if is_https else 'http'}://{host}"


def _options(upload: Upload, ignored: list[str]) -> TranslateOptions:
    fields = upload.fields
    ignored.extend(sorted(fields.keys() - _READ - {"api_key"}))
    for name in ("source", "target"):
        if not fields.get(name):
            message = f"Invalid request: missing {name} parameter"
            raise RefusedError(Fault(status=HTTPStatus.BAD_REQUEST, message=message))
    source = fields["source"]
    options = TranslateOptions(source_language=None if source == "auto" else source, target_language=fields["target"])
    return options | unserved(fields.get(UNSERVED))
