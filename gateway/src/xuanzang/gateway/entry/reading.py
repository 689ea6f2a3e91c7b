"""Bytes of callers as values: JSON, forms, multipart forms and their charset, each within limits.

Whatever a caller sends is decoded here and nowhere else. Functions whose time grows with a body run in `ReadingThread`,
and their calls into C are short, because it holds the interpreter lock.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

from pydantic_core import from_json
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.datastructures import Headers

from xuanzang.gateway.errors import Fault, RefusedError

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
MAX_FIELDS = 2048
"""Fields of a form."""
MAX_TOKENS = 32_768
"""Strings, commas and opening brackets of a JSON body."""
_CHARSETS = frozenset({"", "utf-8", "utf8", "us-ascii", "ascii"})
"""Charsets that a form may name. Other decoders of Python take quadratic time, or decode to something else."""
_MAX_HEADER_BYTES = 4096
"""Size of a header with parameters, whose parsing takes quadratic time."""
_AT_ONCE_BYTES = 16 * 1024
"""Maximum size of a request that is read in the event loop."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# RFC 5987; the parser leaves it out.
_EXTENDED_FILE_NAME = re.compile(rb";\s*filename\*\s*=\s*\"?utf-8'[^']*'([^;\"\s]*)", re.IGNORECASE)
_ESCAPES = re.compile(rb"(?:%[0-9A-Fa-f]{2}){1,256}")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)

Result = TypeVar("Result")


class ReadingThread:
    """Runs functions whose time grows with a request. One thread, so the event loop waits for one other at most."""

    def __init__(self) -> None:
        """Start no thread yet."""
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="reading")

    async def run(self, function: Callable[[], Result], *, size: int) -> Result:
        """Return the result of a function, which runs in the event loop if the request is small.

        Args:
            size: Size of the request in bytes.

        Raises:
            RefusedError: The function raises it.
        """
        if size <= _AT_ONCE_BYTES:
            return function()
        return await asyncio.get_running_loop().run_in_executor(self._executor, function)

    def close(self) -> None:
        """End the thread once it is idle."""
        self._executor.shutdown(wait=False, cancel_futures=True)


class UploadedFile(NamedTuple):
    """A file in a multipart form."""

    name: str
    """Name that the caller gives it; may be empty."""
    content: bytes
    """Content."""


@dataclass(slots=True, kw_only=True)
class Multipart:
    """Fields and files of a multipart form."""

    fields: list[tuple[str, str]] = field(default_factory=list)
    """Names and values, in the order of the form."""
    files: dict[str, UploadedFile] = field(default_factory=dict)
    """Files by the names of their fields."""


def json_value(body: bytes) -> Any:
    """Return the value of a JSON body.

    Raises:
        RefusedError: It is not valid JSON in UTF-8, has more than `MAX_TOKENS` tokens, or is nested 200 deep.
    """
    body = checked_json(body)
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise _bad("the body is not valid JSON in UTF-8") from error


def checked_json(body: bytes) -> bytes:
    """Return a JSON body without its byte order mark, if its number of tokens is within the limit.

    Raises:
        RefusedError: It has more than `MAX_TOKENS` tokens.
    """
    body = body.removeprefix(_BYTE_ORDER_MARK)
    if _structure(body) + body.count(b'"') > MAX_TOKENS and not _has_few_tokens(body):
        raise _bad(f"the body must have at most {MAX_TOKENS} strings, commas and brackets")
    return body


def _structure(body: bytes) -> int:
    """Return the number of commas and opening brackets, those in strings included."""
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def _has_few_tokens(body: bytes) -> bool:
    """Return whether tokens are within the limit if commas and brackets in strings are not counted."""
    tokens, end = 0, 0
    for string in _STRING.finditer(body):
        tokens += 1 + _structure(body[end : string.start()])
        end = string.end()
        if tokens > MAX_TOKENS:
            return False
    return tokens + _structure(body[end:]) <= MAX_TOKENS


def pairs(encoded: bytes) -> list[tuple[str, str]]:
    """Return names and values of a query or an urlencoded form, whose UTF-8 may also be sent unescaped.

    Raises:
        RefusedError: It is not UTF-8, or has more than `MAX_FIELDS` fields.
    """
    if encoded.count(b"&") >= MAX_FIELDS:
        raise _bad(f"a form must have at most {MAX_FIELDS} fields")
    fields = (each.replace(b"+", b" ").partition(b"=") for each in encoded.split(b"&") if each)
    return [(_unescaped(name), _unescaped(value)) for name, _, value in fields]


def _unescaped(encoded: bytes) -> str:
    return _text(_ESCAPES.sub(lambda found: bytes.fromhex(found[0].replace(b"%", b"").decode()), encoded), "values")


def require_charset(headers: Headers) -> None:
    """Refuse a form whose charset is not UTF-8.

    Raises:
        RefusedError: The header content-type names another charset, or is too large.
    """
    charset = _options(headers.get("content-type", "").encode("latin-1")).get(b"charset", b"")
    if charset.decode("latin-1").strip("\"' ").lower() not in _CHARSETS:
        raise RefusedError(
            Fault(status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message="the charset of a form must be utf-8")
        )


def read_multipart(headers: Headers, body: bytes, *, max_files: int = 0, max_fields: int = MAX_FIELDS) -> Multipart:
    """Read a multipart form.

    Raises:
        RefusedError: It is broken, not in UTF-8, or has too many parts.
    """
    require_charset(headers)
    boundary = _options(headers.get("content-type", "").encode("latin-1")).get(b"boundary")
    reader = _MultipartReader(max_files=max_files, max_fields=max_fields)
    try:
        parser = MultipartParser(boundary or b"", reader.callbacks)
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise _broken_multipart() from error
    if not boundary or not reader.is_whole:
        raise _broken_multipart()
    return reader.form


class _MultipartReader:
    """Gathers the parts that the parser finds."""

    def __init__(self, *, max_files: int, max_fields: int) -> None:
        self.form = Multipart()
        self.is_whole = False
        self._limits = max_files, max_fields
        self._header = bytearray()
        self._value = bytearray()
        self._header_bytes = 0
        self._disposition = b""
        self._content = bytearray()

    @property
    def callbacks(self) -> Any:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._extend_header,
            "on_header_value": self._extend_value,
            "on_header_end": self._end_header,
            "on_part_data": self._extend_content,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def _begin(self) -> None:
        self._disposition, self._content, self._header_bytes = b"", bytearray(), 0

    def _extend_header(self, data: bytes, start: int, end: int) -> None:
        self._header += self._within_limit(data, start, end)

    def _extend_value(self, data: bytes, start: int, end: int) -> None:
        self._value += self._within_limit(data, start, end)

    def _within_limit(self, data: bytes, start: int, end: int) -> bytes:
        self._header_bytes += end - start
        if self._header_bytes > _MAX_HEADER_BYTES:
            raise _bad(f"the headers of a part must have at most {_MAX_HEADER_BYTES} bytes")
        return data[start:end]

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header, self._value = bytearray(), bytearray()

    def _extend_content(self, data: bytes, start: int, end: int) -> None:
        self._content += data[start:end]

    def _end(self) -> None:
        options = {**_options(self._disposition)}
        if extended := _EXTENDED_FILE_NAME.search(self._disposition):
            options[b"filename"] = unquote_to_bytes(extended[1])
        if b"name" not in options:
            raise _broken_multipart()
        name = _text(options[b"name"], "names")
        max_files, max_fields = self._limits
        if b"filename" in options:
            if len(self.form.files) >= max_files:
                raise _bad(f"the form must have at most {max_files} files" if max_files else "the form takes no files")
            file_name = _text(options[b"filename"], "names of files")
            self.form.files[name] = UploadedFile(file_name, bytes(self._content))
        else:
            if len(self.form.fields) >= max_fields:
                raise _bad(f"the form must have at most {max_fields} fields")
            self.form.fields.append((name, _text(bytes(self._content), "values")))

    def _finish(self) -> None:
        self.is_whole = True


def _options(header: bytes) -> Mapping[bytes, bytes]:
    """Return the parameters of a header such as content-type."""
    if len(header) > _MAX_HEADER_BYTES:
        raise _bad(f"a header with parameters must have at most {_MAX_HEADER_BYTES} bytes")
    return parse_options_header(header)[1]


def _text(encoded: bytes, what: str) -> str:
    try:
        return encoded.decode()
    except UnicodeDecodeError as error:
        raise _bad(f"{what} in a form must be UTF-8") from error


def _broken_multipart() -> RefusedError:
    return _bad(f"the body must be whole {MULTIPART}, with a boundary and a name for each part")


def _bad(message: str) -> RefusedError:
    return RefusedError(Fault(status=HTTPStatus.BAD_REQUEST, message=message))
