"""DeepL's glossaries, version 2, on those that the server holds: the id of one is its name there."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse, Response

from xuanzang.client import StatusCode, StoredGlossary, TranslationError
from xuanzang.gateway.entry.endpoints import Call, Handler
from xuanzang.gateway.entry.parameters import Parameters
from xuanzang.gateway.errors import bad_request
from xuanzang.gateway.languages import targets_by_source

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_MAX_STEM = 48
_READ = ("name", "source_lang", "target_lang", "entries", "entries_format")
_TSV = "text/tab-separated-values; charset=utf-8"


class DeepLGlossaries:
    """Handlers of the glossaries."""

    @property
    def calls(self) -> dict[str, Handler]:
        """Handlers by address."""
        return {
            "/v2/glossaries": self.all,
            "/v2/glossaries/{glossary_id}": self.one,
            "/v2/glossaries/{glossary_id}/entries": self.entries,
            "/v2/glossary-language-pairs": self.pairs,
        }

    async def all(self, call: Call) -> Response:
        """Answer /v2/glossaries: list, or make one."""
        if call.method == "POST":
            return await self._create(call)
        return JSONResponse({"glossaries": [_glossary(each) for each in await call.client.list_glossaries()]})

    async def one(self, call: Call) -> Response:
        """Answer /v2/glossaries/ID: return one, or delete it."""
        wanted = call.path["glossary_id"]
        if call.method == "DELETE":
            return await self._delete(call, wanted)
        found = [each for each in await call.client.list_glossaries() if each.name == wanted]
        return JSONResponse(_glossary(found[0])) if found else _missing()

    async def entries(self, call: Call) -> Response:
        """Answer /v2/glossaries/ID/entries; of several translations of a term, the first is DeepL's one."""
        try:
            entries = await call.client.list_glossary_entries(call.path["glossary_id"])
        except TranslationError as error:
            return _unless_missing(error)
        lines = (f"{source}\t{targets[0]}" for source, targets in entries.items())
        return Response("\n".join(lines), media_type=_TSV)

    async def pairs(self, call: Call) -> Response:
        """Answer /v2/glossary-language-pairs: all that the server translates."""
        pairs = targets_by_source(await call.client.list_models())
        listed = [{"source_lang": source, "target_lang": each} for source, targets in pairs.items() for each in targets]
        return JSONResponse({"supported_languages": listed})

    async def _create(self, call: Call) -> Response:
        asked = call.parameters
        if unknown := asked.names.difference(_READ, {"auth_key"}):
            raise bad_request(min(unknown), "is not supported by this gateway")
        given = {name: _given(asked, name) for name in _READ}
        stored = await call.client.create_glossary(
            stored_name(given["name"]),
            read_entries(given["entries"], given["entries_format"]),
            source_language=given["source_lang"].lower(),
            target_language=given["target_lang"].lower(),
        )
        return JSONResponse(_glossary(stored), HTTPStatus.CREATED)

    async def _delete(self, call: Call, wanted: str) -> Response:
        try:
            await call.client.delete_glossary(wanted)
        except TranslationError as error:
            return _unless_missing(error)
        return Response(status_code=HTTPStatus.NO_CONTENT)


def stored_name(name: str) -> str:
    """Return the name by which the server holds a glossary.

    Args:
        name: Name in the words of a caller.

    Returns:
        The same, if files can have it; else its letters, and a digest that tells it from others.
    """
    if _NAME.fullmatch(name):
        return name
    stem = _NOT_IN_NAMES.sub("-", name.lower()).strip("-")[:_MAX_STEM]
    return "-".join(filter(None, (stem, hashlib.sha256(name.encode(errors="replace")).hexdigest()[:8])))


def read_entries(text: str, form: str) -> dict[str, str]:
    """Read the entries of a request.

    Args:
        text: A line for each, of a term and its translation.
        form: "tsv" or "csv".

    Returns:
        Translations by term.

    Raises:
        RefusedError: A line is no entry, a term is there twice, or the form is another one.
    """
    if form not in ("tsv", "csv"):
        raise bad_request("entries_format", 'must be "tsv" or "csv"')
    rows = csv.reader(io.StringIO(text), strict=True) if form == "csv" else (each.split("\t") for each in _lines(text))
    entries: dict[str, str] = {}
    try:
        for number, row in enumerate(rows, start=1):
            if row and row != [""]:
                _add(entries, row, number)
    except csv.Error as error:
        raise bad_request("entries", "must be valid CSV") from error
    return entries


def _lines(text: str) -> list[str]:
    # A term may hold the other characters that str.splitlines takes for ends of lines; the server refuses those.
    return text.replace("\r\n", "\n").split("\n")


def _add(entries: dict[str, str], row: list[str], number: int) -> None:
    if len(row) != 2 or not all(each.strip() for each in row):
        raise bad_request("entries", f"must be a term and its translation in line {number}")
    source, target = (each.strip() for each in row)
    if source in entries:
        raise bad_request("entries", f"must have each term once: that of line {number} is there before")
    entries[source] = target


def _given(parameters: Parameters, name: str) -> str:
    value = parameters.text(name)
    if value is None:
        raise bad_request(name, "must be given")
    return value


def _unless_missing(error: TranslationError) -> Response:
    if error.code is StatusCode.NOT_FOUND:
        return _missing()
    raise error


def _missing() -> Response:
    return JSONResponse({"message": "there is no such glossary"}, HTTPStatus.NOT_FOUND)


def _glossary(stored: StoredGlossary) -> dict[str, Any]:
    return {
        "glossary_id": stored.name,
        "name": stored.name,
        "ready": True,
        "source_lang": stored.source_language,
        "target_lang": stored.target_language,
        # The server does not keep it, and official clients want one.
        "creation_time": "1970-01-01T00:00:00.000000+00:00",
        "entry_count": stored.entry_count,
    }
