"""DeepL's glossaries, versions 2 and 3, stored as glossaries of the server.

The server's have one pair of languages, so one of version 3 is several of them: those whose names are its id, a dot and
their languages, such as `animals.zh-en`.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from starlette.responses import JSONResponse, Response

from xuanzang.client import StatusCode, StoredGlossary, TranslationError
from xuanzang.gateway.apis.deepl.dictionaries import (
    DICTIONARY,
    lines_of,
    read_dictionaries,
    read_dictionary,
    required,
)
from xuanzang.gateway.entry.endpoints import BaseCall, Call, Handler
from xuanzang.gateway.errors import Fault, RefusedError, bad_request, fault_of
from xuanzang.gateway.languages import base, pivots, targets_by_source

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_MAX_STEM = 31
_ENTRY_BYTES = 16
_TSV = "text/tab-separated-values; charset=utf-8"
# The server does not keep it, and official clients want one.
_CREATION_TIME = "1970-01-01T00:00:00.000000+00:00"
_NO_GLOSSARY = "there is no such glossary"
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "contents": "text",
        "source_language_code": "source_lang",
        "target_language_code": "target_lang",
        "content_format": "tag_handling",
        "glossary": "glossary_id",
        "display_name": "name",
    }
)
"""DeepL's names of parameters, by those of the gRPC service."""


class DeepLGlossaries:
    """Handlers of the glossaries."""

    @property
    def calls(self) -> list[tuple[str, str, Handler]]:
        """Methods, addresses and handlers."""
        return [
            ("GET", "/v2/glossaries", self.all),
            ("POST", "/v2/glossaries", self.create),
            ("GET", "/v2/glossaries/{glossary_id}", self.one),
            ("DELETE", "/v2/glossaries/{glossary_id}", self.delete),
            ("GET", "/v2/glossaries/{glossary_id}/entries", self.entries),
            ("GET", "/v2/glossary-language-pairs", self.pairs),
            ("GET", "/v3/glossaries", self.all_multilingual),
            ("POST", "/v3/glossaries", self.create_multilingual),
            ("GET", "/v3/glossaries/{glossary_id}", self.one_multilingual),
            ("PATCH", "/v3/glossaries/{glossary_id}", self.change_multilingual),
            ("DELETE", "/v3/glossaries/{glossary_id}", self.delete),
            ("GET", "/v3/glossaries/{glossary_id}/entries", self.entries_multilingual),
            ("PUT", "/v3/glossaries/{glossary_id}/dictionaries", self.replace_dictionary),
            ("DELETE", "/v3/glossaries/{glossary_id}/dictionaries", self.delete_dictionary),
        ]

    async def all(self, call: Call) -> Response:
        """List those of one pair of languages."""
        groups = _groups(await call.client.list_glossaries(timeout=call.seconds))
        listed = [_glossary(name, dictionaries[0]) for name, dictionaries in groups.items() if len(dictionaries) == 1]
        return JSONResponse({"glossaries": listed})

    async def create(self, call: Call) -> Response:
        """Store one of one pair."""
        call.ignore_others(("name", *DICTIONARY, "auth_key"))
        name = required(call.parameters, "name")
        dictionary = await call.apart(partial(read_dictionary, call.parameters))
        glossary_id, (stored,) = await _create(call, name, [dictionary])
        return JSONResponse(_glossary(glossary_id, stored), HTTPStatus.CREATED)

    async def one(self, call: Call) -> Response:
        """Return one of one pair."""
        glossary_id = call.path["glossary_id"]
        dictionaries = await _stored(call, glossary_id)
        if len(dictionaries) > 1:
            raise bad_request("glossary_id", "has several pairs of languages: use version 3 of the API")
        return JSONResponse(_glossary(glossary_id, dictionaries[0]))

    async def delete(self, call: Call) -> Response:
        """Delete one."""
        for each in await _stored(call, call.path["glossary_id"]):
            await call.client.delete_glossary(each.name, timeout=call.seconds)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def entries(self, call: Call) -> Response:
        """Return the entries of one; of several translations of a term, the first is DeepL's one."""
        dictionaries = await _stored(call, call.path["glossary_id"])
        return Response(await _tsv(call, dictionaries[0]), media_type=_TSV)

    async def pairs(self, call: Call) -> Response:
        """Return the pairs of languages that glossaries may have: those of the server's models."""
        models = await call.client.list_models(timeout=call.seconds)
        pairs, pivoted = targets_by_source(models), pivots(models)
        listed = [
            {"source_lang": source, "target_lang": target}
            | ({"pivot": pivoted[source, target]} if (source, target) in pivoted else {})
            for source, targets in pairs.items()
            for target in targets
        ]
        return JSONResponse({"supported_languages": listed})

    async def all_multilingual(self, call: Call) -> Response:
        """List all."""
        groups = _groups(await call.client.list_glossaries(timeout=call.seconds))
        return JSONResponse(
            {"glossaries": [_multilingual(name, dictionaries) for name, dictionaries in groups.items()]}
        )

    async def create_multilingual(self, call: Call) -> Response:
        """Store one."""
        call.ignore_others(("name", "dictionaries", "auth_key"))
        name = required(call.parameters, "name")
        dictionaries = await call.apart(partial(read_dictionaries, call.parameters))
        if not dictionaries:
            raise bad_request("dictionaries", "must be given")
        if len({(each["source_language"], each["target_language"]) for each in dictionaries}) < len(dictionaries):
            raise bad_request("dictionaries", "must have each pair of languages once")
        glossary_id, stored = await _create(call, name, dictionaries)
        return JSONResponse(_multilingual(glossary_id, stored), HTTPStatus.CREATED)

    async def one_multilingual(self, call: Call) -> Response:
        """Return one."""
        glossary_id = call.path["glossary_id"]
        return JSONResponse(_multilingual(glossary_id, await _stored(call, glossary_id)))

    async def change_multilingual(self, call: Call) -> Response:
        """Rename one, or add entries to its dictionaries."""
        call.ignore_others(("name", "dictionaries", "auth_key"))
        changes = await call.apart(partial(read_dictionaries, call.parameters))
        glossary_id, name = call.path["glossary_id"], call.parameters.text("name")
        dictionaries = await _stored(call, glossary_id)
        for each in dictionaries if name else ():
            await _store(call, each.name, await _as_dictionary(call, each), name or "", replace=True)
        for dictionary in changes:
            same = _of_pair(dictionaries, dictionary)
            old = await call.client.list_glossary_entries(same.name, timeout=call.seconds) if same else {}
            stored_as = same.name if same else _dictionary_name(glossary_id, dictionary)
            merged = {**dictionary, "entries": old | dictionary["entries"]}
            await _store(call, stored_as, merged, name or _display_name(glossary_id, dictionaries), replace=True)
        return await self.one_multilingual(call)

    async def entries_multilingual(self, call: Call) -> Response:
        """Return the entries of a dictionary."""
        stored = await _stored(call, call.path["glossary_id"])
        source, target = (call.parameters.text(name) for name in ("source_lang", "target_lang"))
        dictionaries = [
            _languages(each) | {"entries": await _tsv(call, each), "entries_format": "tsv"}
            for each in stored
            if source in (None, each.source_language.upper(), each.source_language)
            and target in (None, each.target_language.upper(), each.target_language)
        ]
        if not dictionaries:
            raise _missing("the glossary has no such dictionary")
        return JSONResponse({"dictionaries": dictionaries})

    async def replace_dictionary(self, call: Call) -> Response:
        """Store a dictionary of one, in the place of another of its languages."""
        call.ignore_others((*DICTIONARY, "auth_key"))
        dictionary = await call.apart(partial(read_dictionary, call.parameters))
        glossary_id = call.path["glossary_id"]
        dictionaries = await _stored(call, glossary_id)
        same = _of_pair(dictionaries, dictionary)
        stored_as = same.name if same else _dictionary_name(glossary_id, dictionary)
        name = _display_name(glossary_id, dictionaries)
        stored = await _store(call, stored_as, dictionary, name, replace=True)
        return JSONResponse(_languages(stored) | {"entry_count": stored.entry_count})

    async def delete_dictionary(self, call: Call) -> Response:
        """Delete a dictionary of one."""
        dictionaries = await _stored(call, call.path["glossary_id"])
        wanted = {
            "source_language": required(call.parameters, "source_lang").lower(),
            "target_language": required(call.parameters, "target_lang").lower(),
        }
        dictionary = _of_pair(dictionaries, wanted)
        if dictionary is None:
            raise _missing("the glossary has no such dictionary")
        await call.client.delete_glossary(dictionary.name, timeout=call.seconds)
        return Response(status_code=HTTPStatus.NO_CONTENT)


async def glossary_for(call: BaseCall, glossary_id: str, *, source: str | None, target: str) -> str:
    """Return the server's name of the dictionary of a glossary for a pair of languages.

    Args:
        source: Language of the texts, or None.
        target: Language of the translations.

    Raises:
        RefusedError: There is none, or nothing in it for the pair.
    """
    dictionaries = await _stored(call, glossary_id)
    if len(dictionaries) == 1:
        # The server says it, if the languages are others.
        return dictionaries[0].name
    for each in dictionaries:
        if base(each.target_language) == base(target) and base(source or "") in ("", base(each.source_language)):
            return each.name
    raise bad_request("glossary_id", "has no dictionary for these languages")


def new_id(name: str) -> str:
    """Return an id for a glossary, which the server can take as a name.

    Args:
        name: Name in the words of a caller.

    Returns:
        The same, if files can have it; else its letters, and a digest that tells it from others.
    """
    if _NAME.fullmatch(name):
        return name
    stem = _NOT_IN_NAMES.sub("-", name.lower()).strip("-")[:_MAX_STEM]
    return "-".join(filter(None, (stem, hashlib.sha256(name.encode(errors="replace")).hexdigest()[:8])))


def _groups(stored: Iterable[StoredGlossary]) -> dict[str, list[StoredGlossary]]:
    """Return glossaries by the ids that DeepL's have here."""
    groups: dict[str, list[StoredGlossary]] = {}
    for each in stored:
        suffix = _suffix(each.source_language, each.target_language)
        groups.setdefault(each.name.removesuffix(suffix), []).append(each)
    return groups


def _suffix(source: str, target: str) -> str:
    return f".{source}-{target}".lower()


async def _stored(call: BaseCall, glossary_id: str) -> list[StoredGlossary]:
    """Return the glossaries of an id, which may also be the whole name of one, such as `terms.zh-en`."""
    stored = await call.client.list_glossaries(timeout=call.seconds)
    dictionaries = _groups(stored).get(glossary_id) or [each for each in stored if each.name == glossary_id]
    if not dictionaries:
        raise _missing(_NO_GLOSSARY)
    return dictionaries


async def _create(call: BaseCall, name: str, dictionaries: list[dict[str, Any]]) -> tuple[str, list[StoredGlossary]]:
    """Store dictionaries under a new id, all or none."""
    existing = await call.client.list_glossaries(timeout=call.seconds)
    taken = _groups(existing).keys() | {each.name for each in existing}
    glossary_id = new_id(name)
    if any(glossary_id.endswith(_suffix(each["source_language"], each["target_language"])) for each in dictionaries):
        # Otherwise it would be read as the dictionary of another glossary.
        glossary_id = glossary_id.replace(".", "-")
    if glossary_id in taken:
        glossary_id = f"{glossary_id[:_MAX_STEM]}-{secrets.token_hex(4)}"
    stored: list[StoredGlossary] = []
    try:
        for each in dictionaries:
            stored_as = glossary_id if len(dictionaries) == 1 else _dictionary_name(glossary_id, each)
            stored.append(await _store(call, stored_as, each, name, replace=False))
    except RefusedError:
        for done in stored:
            await call.client.delete_glossary(done.name, timeout=call.seconds)
        raise
    return glossary_id, stored


async def _store(
    call: BaseCall, stored_as: str, dictionary: Mapping[str, Any], name: str, *, replace: bool
) -> StoredGlossary:
    try:
        return await call.client.create_glossary(
            stored_as, display_name=name.strip(), replace=replace, timeout=call.seconds, **dictionary
        )
    except TranslationError as error:
        raise RefusedError(fault_of(error).named(NAMES)) from error


async def _as_dictionary(call: BaseCall, stored: StoredGlossary) -> dict[str, Any]:
    entries = await call.client.list_glossary_entries(stored.name, timeout=call.seconds)
    return {
        "entries": entries,
        "source_language": stored.source_language,
        "target_language": stored.target_language,
        "version": stored.version,
    }


def _of_pair(dictionaries: Iterable[StoredGlossary], dictionary: Mapping[str, Any]) -> StoredGlossary | None:
    pair = dictionary["source_language"], dictionary["target_language"]
    return next(
        (each for each in dictionaries if (each.source_language.lower(), each.target_language.lower()) == pair), None
    )


def _dictionary_name(glossary_id: str, dictionary: Mapping[str, Any]) -> str:
    return glossary_id + _suffix(dictionary["source_language"], dictionary["target_language"])


def _display_name(glossary_id: str, dictionaries: Iterable[StoredGlossary]) -> str:
    return next((each.display_name for each in dictionaries if each.display_name), glossary_id)


def _missing(message: str) -> RefusedError:
    """Return the refusal of a missing glossary, which `render` answers with 404."""
    return RefusedError(Fault(status=HTTPStatus.GONE, message=message))


async def _tsv(call: Call, stored: StoredGlossary) -> str:
    try:
        entries = await call.client.list_glossary_entries(stored.name, timeout=call.seconds)
    except TranslationError as error:
        if error.code is StatusCode.NOT_FOUND:
            raise _missing(_NO_GLOSSARY) from error
        raise
    return await call.reading.run(partial(lines_of, entries), size=_ENTRY_BYTES * len(entries))


def _languages(stored: StoredGlossary) -> dict[str, Any]:
    return {"source_lang": stored.source_language, "target_lang": stored.target_language}


def _glossary(glossary_id: str, stored: StoredGlossary) -> dict[str, Any]:
    return {
        "glossary_id": glossary_id,
        "name": stored.display_name or glossary_id,
        "ready": True,
        **_languages(stored),
        "creation_time": _CREATION_TIME,
        "entry_count": stored.entry_count,
    }


def _multilingual(glossary_id: str, dictionaries: list[StoredGlossary]) -> dict[str, Any]:
    return {
        "glossary_id": glossary_id,
        "name": _display_name(glossary_id, dictionaries),
        "dictionaries": [_languages(each) | {"entry_count": each.entry_count} for each in dictionaries],
        "creation_time": _CREATION_TIME,
    }
