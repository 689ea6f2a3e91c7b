"""JSON (.json, .jsonl, .ndjson, .arb): every string value, or those of named keys; keys and all other bytes stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from xuanzang.documents.document import IN_MESSAGES, Document, DocumentError, ReadSettings
from xuanzang.documents.encoding import EncodedText
from xuanzang.documents.formats.messages.accelerators import unmarked
from xuanzang.documents.splicing import Edit, SplicedDocument, is_identifier, parted, replacement

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"(\s*+:)?+|[\[\]{},]')
_LINES = (".jsonl", ".ndjson")


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read a JSON file, or one with a JSON value on each line; see `Format`."""
    source = EncodedText.decode(raw, settings.encoding)
    if settings.suffix not in _LINES:
        _check(source.text, settings.limits.depth, "")
        if settings.suffix == ".arb":
            edits = list(_resource_edits(source.text, settings))
            return SplicedDocument(source, edits, placeholders=IN_MESSAGES)
        edits = list(map(unmarked, _edits(source.text, settings, 0)))
        return SplicedDocument(source, edits, placeholders=IN_MESSAGES)
    edits = []
    start = 0
    for number, line in enumerate(source.text.split("\n"), start=1):
        if line.strip():
            _check(line, settings.limits.depth, f"line {number}: ")
            edits += _edits(line, settings, start)
        start += len(line) + 1
    return SplicedDocument(source, edits, placeholders=IN_MESSAGES)


def _check(text: str, limit: int, where: str) -> None:
    """Check that a text is one JSON value; only then do its quotation marks tell its strings."""
    too_deep = DocumentError(f"{where}values are nested more than {limit} deep")
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except ValueError as error:
        raise DocumentError(f"{where}not JSON: {error}") from error
    except RecursionError:
        raise too_deep from None
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > limit:
            raise too_deep


def _resource_edits(text: str, settings: ReadSettings) -> Iterator[Edit]:
    """Yield the edits of a resource bundle of applications (.arb): its messages, and the name of its language."""
    depth, key, ascii_only = 0, "", text.isascii()
    language = json.dumps((settings.target_language or "").replace("-", "_"))
    for token in _TOKEN.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if token[1]:
            key = json.loads(token[0].removesuffix(token[1])) if depth == 1 else key
        elif depth == 1 and token[0].startswith('"') and key == "@@locale" and settings.target_language:
            yield Edit(start=token.start(), end=token.end(), texts=(), render=lambda _found: language)
        elif depth == 1 and token[0].startswith('"') and not key.startswith("@"):
            yield from _replacement(token, 0, ascii_only=ascii_only)


def _edits(text: str, settings: ReadSettings, offset: int) -> Iterator[Edit]:
    """Yield the edits of a JSON value that begins at an offset of the file."""
    ascii_only = text.isascii()
    keys = [""]  # of the value at each depth; the elements of a list have the key of the list
    for token in _TOKEN.finditer(text):
        if token[0] in "[{":
            keys.append(keys[-1])
        elif token[0] in "]}":
            keys.pop()
        elif token[1]:
            keys[-1] = json.loads(token[0].removesuffix(token[1]))
        elif token[0] != "," and (settings.columns is None or keys[-1] in settings.columns):
            yield from _replacement(token, offset, ascii_only=ascii_only)


def _replacement(token: re.Match[str], offset: int, *, ascii_only: bool) -> Iterator[Edit]:
    """Yield the edit of a string: white space at its ends stays; a file without other characters stays ASCII."""
    value: str = json.loads(token[0])
    before, text, after = parted(value)
    if is_identifier(text):
        return
    yield from replacement(
        offset + token.start(),
        offset + token.end(),
        text,
        lambda translation: json.dumps(before + translation + after, ensure_ascii=ascii_only),
    )
