"""Uploaded files: multipart/form-data with one file, kept in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import PurePath

from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from xuanzang.documents import SUFFIXES
from xuanzang.gateway.errors import Fault, RefusedError, bad_request

_MAX_FIELDS = 64
_MAX_FIELD_BYTES = 64 * 1024
_CHUNK_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file, and the fields beside it."""

    content: bytes
    """Content of the file."""
    suffix: str
    """Suffix of its name, in lower case with its dot; one of those that can be translated."""
    fields: dict[str, str]
    """Other fields of the form, by name."""


async def read_upload(headers: Headers, body: bytes, *, file_field: str = "file") -> Upload:
    """Read an upload.

    Args:
        body: Its body, within its limit.

    Raises:
        RefusedError: The body is no such form, has no file, or one that cannot be translated.
    """
    form = await _form(headers, body)
    try:
        return await _upload(form, file_field)
    finally:
        await form.close()


async def _upload(form: FormData, file_field: str) -> Upload:
    file = form.get(file_field)
    if not isinstance(file, UploadFile):
        raise bad_request(file_field, "must be a file")
    suffix = PurePath(file.filename or "").suffix.lower()
    if suffix not in SUFFIXES:
        raise bad_request(file_field, f"must have one of the file extensions {' '.join(SUFFIXES)}")
    fields = {name: value for name, value in form.items() if isinstance(value, str)}
    return Upload(content=await file.read(), suffix=suffix, fields=fields)


async def _form(headers: Headers, body: bytes) -> FormData:
    async def chunks() -> AsyncGenerator[bytes, None]:
        for start in range(0, len(body), _CHUNK_BYTES):
            yield body[start : start + _CHUNK_BYTES]
            await asyncio.sleep(0)  # a body may be made of beginnings of boundaries, which are slow to read

    try:
        parser = MultiPartParser(headers, chunks(), max_files=1, max_fields=_MAX_FIELDS, max_part_size=_MAX_FIELD_BYTES)
        # Nothing of a caller is written to the disk.
        parser.spool_max_size = len(body) + 1
        return await parser.parse()
    except (MultiPartException, KeyError) as error:
        message = f"the body must be multipart/form-data with one file and at most {_MAX_FIELDS} other fields"
        raise RefusedError(Fault(status=HTTPStatus.BAD_REQUEST, message=message)) from error
