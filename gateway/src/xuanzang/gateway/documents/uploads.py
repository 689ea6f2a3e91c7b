"""Uploaded files: multipart/form-data with one file, kept in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from starlette.datastructures import Headers

from xuanzang.documents import SUFFIXES
from xuanzang.gateway.entry.reading import read_multipart
from xuanzang.gateway.errors import bad_request

_MAX_FIELDS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file with the other fields of its form."""

    content: bytes
    """Content of the file."""
    suffix: str
    """Suffix of its name, in lower case with its dot; a format of documents."""
    fields: dict[str, str]
    """Other fields of the form, by name."""
    columns: tuple[str, ...]
    """Values of the field `column`, which may be repeated."""


def read_upload(headers: Headers, body: bytes, *, file_field: str = "file") -> Upload:
    """Read an upload.

    Args:
        body: Its body, within its limit.

    Raises:
        RefusedError: The body is no such form, or has no file of a known format.
    """
    form = read_multipart(headers, body, max_files=1, max_fields=_MAX_FIELDS)
    file = form.files.get(file_field)
    if file is None:
        raise bad_request(file_field, "must be a file")
    fields = dict(form.fields)
    suffix = PurePath(file.name or fields.get("filename", "")).suffix.lower()
    if suffix not in SUFFIXES:
        raise bad_request(file_field, f"must have one of the file extensions {' '.join(SUFFIXES)}")
    columns = tuple(value for name, value in form.fields if name == "column")
    fields.pop("column", None)
    return Upload(content=file.content, suffix=suffix, fields=fields, columns=columns)
