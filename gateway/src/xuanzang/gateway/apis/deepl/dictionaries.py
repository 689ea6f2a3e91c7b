"""Dictionaries of DeepL's glossaries: parameters and entries, read and written."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from xuanzang.gateway.entry.parameters import Parameters
from xuanzang.gateway.errors import RefusedError, bad_request
from xuanzang.gateway.languages import base

DICTIONARY = ("source_lang", "target_lang", "entries", "entries_format")
"""Parameters of a dictionary."""


def read_dictionaries(parameters: Parameters) -> list[dict[str, Any]]:
    """Read the dictionaries of a glossary of version 3.

    Raises:
        RefusedError: A parameter is missing, or an entry is not valid.
    """
    dictionaries = []
    for index, given in enumerate(parameters.objects("dictionaries")):
        try:
            dictionaries.append(read_dictionary(given))
        except RefusedError as error:
            names = {name: f"dictionaries[{index}].{name}" for name in DICTIONARY}
            raise RefusedError(error.fault.named(names)) from error
    return dictionaries


def read_dictionary(given: Parameters) -> dict[str, Any]:
    """Read languages and entries, as `create_glossary` of the SDK takes them; it raises RefusedError, too."""
    fields = {name: required(given, name) for name in DICTIONARY if name != "entries_format"}
    languages = fields["source_lang"].lower(), fields["target_lang"].lower()
    return {
        "entries": read_entries(fields["entries"], given.text("entries_format") or "tsv", languages=languages),
        "source_language": languages[0],
        "target_language": languages[1],
    }


def read_entries(text: str, form: str, *, languages: tuple[str, str]) -> dict[str, str]:
    """Read the entries of a request.

    Args:
        text: A line for each, of a term and its translation, and in CSV also their languages.
        form: "tsv" or "csv".
        languages: Languages of the terms and of their translations.

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
                _add(entries, _without_languages(row, languages, number) if form == "csv" else row, number)
    except csv.Error as error:
        raise bad_request("entries", "must be valid CSV") from error
    return entries


def _lines(text: str) -> list[str]:
    # A term may hold the other characters that str.splitlines takes for ends of lines; the server refuses those.
    return text.replace("\r\n", "\n").split("\n")


def _without_languages(row: list[str], languages: tuple[str, str], number: int) -> list[str]:
    if len(row) != 4:
        return row
    if any(base(given.strip()) != base(asked) for given, asked in zip(row[2:], languages, strict=True)):
        raise bad_request("entries", f"must be from source_lang into target_lang, which line {number} is not")
    return row[:2]


def _add(entries: dict[str, str], row: list[str], number: int) -> None:
    if len(row) != 2 or not all(each.strip() for each in row):
        raise bad_request("entries", f"must be a term and its translation in line {number}")
    source, target = (each.strip() for each in row)
    if source in entries:
        raise bad_request("entries", f"must have each term once: that of line {number} is there before")
    entries[source] = target


def lines_of(entries: Mapping[str, tuple[str, ...]]) -> str:
    """Return entries as lines; of several translations of a term, the first is DeepL's one."""
    return "\n".join(f"{source}\t{targets[0]}" for source, targets in entries.items())


def required(parameters: Parameters, name: str) -> str:
    """Return a parameter that is not blank.

    Raises:
        RefusedError: It is missing or blank.
    """
    value = parameters.text(name)
    if value is None or not value.strip():
        raise bad_request(name, "must be given")
    return value
