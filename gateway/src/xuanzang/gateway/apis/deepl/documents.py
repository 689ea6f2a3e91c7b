"""DeepL's documents, version 2: upload, status, result."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from types import MappingProxyType

from starlette.responses import JSONResponse, Response

from xuanzang.client import DocumentTranslation, TranslateOptions, TranslationError
from xuanzang.documents import DocumentSummary
from xuanzang.gateway.apis.deepl.glossaries import NAMES, glossary_for
from xuanzang.gateway.documents.store import DocumentState, DocumentStore, StoredDocument
from xuanzang.gateway.documents.translator import DocumentTranslator
from xuanzang.gateway.documents.uploads import Upload, read_upload
from xuanzang.gateway.entry.endpoints import Call, Handler
from xuanzang.gateway.entry.parameters import UNSERVED, Choice, Parameters, unserved
from xuanzang.gateway.errors import Fault, RefusedError, bad_request, fault_of
from xuanzang.gateway.languages import unless_automatic

_READ = frozenset(
    {"auth_key", "filename", "formality", "glossary_id", "output_format", "source_lang", "target_lang", UNSERVED}
)
FORMALITIES = Choice(fulfilled=("default",), ignored=("less", "more", "prefer_less", "prefer_more"))
"""Values of the parameter `formality`, which has no effect."""
_MAX_COLUMNS = 64
_STATES: Mapping[DocumentState, str] = MappingProxyType(
    {
        DocumentState.QUEUED: "queued",
        DocumentState.TRANSLATING: "translating",
        DocumentState.DONE: "done",
        DocumentState.FAILED: "error",
    }
)
# Clients ask again after five seconds: a little patience here spares them that for small files.
_PATIENCE_SECONDS = 2.0
_MAX_CALLERS = 4096


class Usage:
    """Characters that were translated for each of the last callers."""

    def __init__(self) -> None:
        """Count nothing yet."""
        self._counts: OrderedDict[str, int] = OrderedDict()

    def count(self, caller: str, characters: int) -> None:
        """Count characters."""
        self._counts[caller] = self.of(caller) + characters
        self._counts.move_to_end(caller)
        if len(self._counts) > _MAX_CALLERS:
            self._counts.popitem(last=False)

    def of(self, caller: str) -> int:
        """Return the characters of a caller."""
        return self._counts.get(caller, 0)


class DeepLDocuments:
    """Handlers of the documents."""

    def __init__(self, store: DocumentStore, translator: DocumentTranslator) -> None:
        """Make the handlers."""
        self._store = store
        self._translator = translator
        self.usage = Usage()
        """Characters of callers, in documents and other texts."""

    @property
    def calls(self) -> list[tuple[str, str, Handler]]:
        """Methods, addresses and handlers, but for the upload."""
        return [
            ("GET POST DELETE", "/v2/document/{document_id}", self.status),
            ("GET POST", "/v2/document/{document_id}/result", self.result),
        ]

    async def upload(self, call: Call) -> Response:
        """Answer /v2/document: take a file, and translate it later."""
        holder = call.caller.holder
        self._store.require_room(holder)
        upload = await call.apart(partial(read_upload, call.headers, call.body))
        options = _options(upload, call.ignored)
        if glossary := upload.fields.get("glossary_id"):
            languages = options["source_language"], options["target_language"] or ""
            options["glossary_name"] = await glossary_for(call, glossary, source=languages[0], target=languages[1])

        async def work() -> DocumentTranslation:
            try:
                translated = await self._translator.translate(
                    upload.content,
                    options,
                    suffix=upload.suffix,
                    client=call.client,
                    holder=holder,
                    columns=upload.columns,
                )
            except TranslationError as error:
                raise RefusedError(fault_of(error).named(NAMES)) from error
            _require_translated(translated.summary)
            self.usage.count(holder.caller, translated.summary.characters)
            return translated

        document = self._store.add(work, holder=holder, suffix=upload.suffix)
        return JSONResponse({"document_id": document.id, "document_key": document.key})

    async def status(self, call: Call) -> Response:
        """Answer /v2/document/ID: the status of a file, at once or when it is done soon; DELETE forgets the file."""
        document = self._found(call)
        if document is None:
            return _missing()
        if call.method == "DELETE":
            self._store.drop(document)
            return Response(status_code=HTTPStatus.NO_CONTENT)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await document.settled.wait()
        except TimeoutError:
            return JSONResponse(_status(document) | {"seconds_remaining": 1})
        return JSONResponse(_status(document))

    async def result(self, call: Call) -> Response:
        """Answer /v2/document/ID/result: the file, once."""
        document = self._found(call)
        if document is None:
            return _missing()
        if document.translation is None:
            message = document.reason or "the document is not translated yet"
            return JSONResponse({"message": message}, HTTPStatus.SERVICE_UNAVAILABLE)
        self._store.drop(document)
        name = f'attachment; filename="translation{document.suffix}"'
        return Response(
            document.translation.content,
            media_type="application/octet-stream",
            headers={"content-disposition": name, "x-content-type-options": "nosniff"},
        )

    def _found(self, call: Call) -> StoredDocument | None:
        key = call.parameters.text("document_key")
        if key is None:
            raise bad_request("document_key", "must be given")
        return self._store.find(call.path["document_id"], key)


def _options(upload: Upload, ignored: list[str]) -> TranslateOptions:
    """Return the options of a document's translation.

    Args:
        ignored: List that receives the names of fields without an effect.
    """
    fields = upload.fields
    ignored.extend(sorted(fields.keys() - _READ))
    given = Parameters({name: [value] for name, value in fields.items()})
    if not FORMALITIES.is_fulfilled(given, "formality"):
        ignored.append("formality")
    if len(upload.columns) > _MAX_COLUMNS:
        raise bad_request("column", f"must be given at most {_MAX_COLUMNS} times")
    if not fields.get("target_lang"):
        raise bad_request("target_lang", "must be given")
    if fields.get("output_format") and f".{fields['output_format'].lower()}" != upload.suffix:
        raise bad_request("output_format", f"must be {upload.suffix[1:]}: files keep their format")
    options = TranslateOptions(
        source_language=unless_automatic(fields.get("source_lang")),
        target_language=fields["target_lang"],
    )
    return options | unserved(fields.get(UNSERVED))


def _require_translated(summary: DocumentSummary) -> None:
    """Fail, as DeepL does, for a document whose texts are all refused, or in the target language already."""
    if summary.refusals and len(summary.refusals) == summary.asked:
        raise RefusedError(Fault(status=HTTPStatus.BAD_REQUEST, message=summary.refusals[0].message))
    if summary.in_target_language and summary.copied == summary.asked:
        message = "Source and target language are equal: the document is in the target language already"
        raise RefusedError(Fault(status=HTTPStatus.BAD_REQUEST, message=message))


def _status(document: StoredDocument) -> dict[str, object]:
    status: dict[str, object] = {"document_id": document.id, "status": _STATES[document.state]}
    if document.translation:
        status["billed_characters"] = document.translation.summary.characters
    if document.state is DocumentState.FAILED:
        status["error_message"] = document.reason
    return status


def _missing() -> Response:
    message = "there is no such document, or it was fetched, or is too old"
    return JSONResponse({"message": message}, HTTPStatus.NOT_FOUND)
