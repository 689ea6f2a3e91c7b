"""Parameters of a request: those of its address and those of its body, which is a form or JSON."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Collection, Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException, MultiPartParser

from xuanzang.client import TranslateOptions
from xuanzang.gateway.errors import Fault, RefusedError, bad_request

_MAX_FIELDS = 2048
_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
UNSERVED = "pass_through_unserved"
"""Parameter of all APIs that says what becomes of texts in languages that are not served."""


class Parameters:
    """Values by name; a name of a form may have several, a name in JSON has one of any type."""

    def __init__(self, values: dict[str, list[Any]], elements: list[Any] | None = None) -> None:
        """Hold values.

        Args:
            values: Values by name, at least one each.
            elements: Elements of a body that is a JSON array; None: it is none.
        """
        self._values = values
        self.elements = elements
        """Elements of a body that is a JSON array; None if it is none."""

    @property
    def names(self) -> set[str]:
        """Names that are given."""
        return set(self._values)

    def text(self, name: str) -> str | None:
        """Return the value of a parameter; None if it is missing, null or empty.

        Raises:
            RefusedError: It is no text, or there are several.
        """
        values = self._values.get(name, [None])
        if len(values) > 1:
            raise bad_request(name, "must be given once")
        if values[0] is None or isinstance(values[0], str):
            return values[0] or None
        raise bad_request(name, "must be a string")

    def scalar(self, name: str) -> str | None:
        """Return a parameter that JSON may give as a number or truth value, as text in the way of forms.

        Raises:
            RefusedError: It is neither text, number nor truth value, or there are several.
        """
        value = self._values.get(name, [None])[-1]
        if isinstance(value, bool):
            return str(int(value))
        return str(value) if isinstance(value, int) else self.text(name)

    def number(self, name: str) -> str | None:
        """Return a parameter that JSON may give as a whole number, as text in the way of forms.

        Raises:
            RefusedError: It is neither text nor a whole number, or there are several.
        """
        return self.text(name) if isinstance(self._values.get(name, [None])[-1], bool) else self.scalar(name)

    def texts(self, name: str) -> list[str]:
        """Return all values of a parameter, which JSON gives as a string or a list of strings.

        Raises:
            RefusedError: One of them is no text.
        """
        values = self._values.get(name, [])
        listed = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        for index, value in enumerate(listed):
            if not isinstance(value, str):
                raise bad_request(f"{name}[{index}]", "must be a string")
        return list(listed)

    def objects(self, name: str) -> list[Parameters]:
        """Return the members of each object of a list in JSON; none if the parameter is missing or null.

        Raises:
            RefusedError: The parameter is no list of objects.
        """
        value = self._values.get(name, [None])[-1]
        listed = [] if value is None else value
        if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
            raise bad_request(name, "must be a list of objects")
        return [Parameters({key: [member] for key, member in each.items()}) for each in listed]

    def is_list(self, name: str) -> bool:
        """Return whether a parameter is a list in JSON, or given several times in a form."""
        values = self._values.get(name, [])
        return len(values) > 1 or (bool(values) and isinstance(values[0], list))


async def read_parameters(*, query: bytes, headers: Headers, body: bytes, takes_elements: bool = False) -> Parameters:
    """Read the parameters of a request.

    Args:
        takes_elements: Whether the body may be a JSON array.

    Raises:
        RefusedError: The body is broken, or of another type.
    """
    values: dict[str, list[Any]] = {}
    _add(values, _pairs(query))
    if not body:
        return Parameters(values)
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    elements = None
    # Some programs send JSON as text, which spares a browser's question whether it may.
    if kind == "application/json" or (kind == "text/plain" and body.lstrip()[:1] in (b"{", b"[")):
        given = _json(body)
        elements = given if takes_elements and isinstance(given, list) else None
        members = _object(given if elements is None else {})
        for name in values.keys() & members.keys():
            raise bad_request(name[:64], "must be given once, in the address or in the body")
        values.update({name: [value] for name, value in members.items()})
    elif kind == _MULTIPART:
        _add(values, await _multipart(headers, body))
    elif kind in ("", _FORM):
        _add(values, _pairs(body))
    else:
        message = f"the body must be application/json, {_FORM} or {_MULTIPART}"
        raise RefusedError(Fault(status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message=message))
    _require_unicode(values if elements is None else {"": elements})
    return Parameters(values, elements)


def checked_texts(texts: list[str], *, field: str, maximum: int) -> list[str]:
    """Return texts, if there are some and not too many.

    Args:
        field: Name of the parameter in the API.
        maximum: Maximum number.

    Raises:
        RefusedError: There are none or too many.
    """
    if not texts:
        raise bad_request(field, "must be given")
    if len(texts) > maximum:
        limit = "one text" if maximum == 1 else f"at most {maximum} texts"
        raise bad_request(field, f"must be {limit}, are {len(texts)}")
    return texts


def require_known(parameters: Parameters, names: Collection[str]) -> None:
    """Refuse a parameter that would be without effect.

    Args:
        names: Names of those that the API has here.

    Raises:
        RefusedError: There is another one.
    """
    unknown = sorted(parameters.names - set(names))
    if unknown:
        raise bad_request(unknown[0], "is not a parameter of this gateway")


def required_text(parameters: Parameters, name: str) -> str:
    """Return the value of a parameter that must be there.

    Raises:
        RefusedError: It is missing, empty, or no text.
    """
    value = parameters.text(name)
    if value is None:
        raise bad_request(name, "must be given")
    return value


def unserved(value: str | None, *, field: str = UNSERVED) -> TranslateOptions:
    """Return what becomes of texts in languages that are not served, by this gateway's addition to the APIs of others.

    Args:
        value: Value of the parameter; None: it is not given.
        field: Its name in the API.

    Raises:
        RefusedError: It is neither true nor false.
    """
    if value is None:
        return {}
    if value.lower() not in ("0", "1", "false", "true"):
        raise bad_request(field, "must be true or false")
    return {"pass_through_unserved": value.lower() in ("1", "true")}


def json_object(body: bytes) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        RefusedError: The body is no JSON, or no object.
    """
    return _object(_json(body))


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RefusedError(Fault(status=HTTPStatus.BAD_REQUEST, message="the body is not valid JSON")) from error


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RefusedError(Fault(status=HTTPStatus.BAD_REQUEST, message="the body must be a JSON object"))
    return value


def _require_unicode(values: dict[str, list[Any]]) -> None:
    """Refuse halves of surrogate pairs, which JSON can escape: no answer that quotes one could be sent."""
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        message = "names and values must be valid Unicode text"
        raise RefusedError(Fault(status=HTTPStatus.BAD_REQUEST, message=message)) from error


def _pairs(encoded: bytes) -> list[tuple[str, str]]:
    try:
        text = encoded.decode("ascii")
        return parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict")
    except ValueError as error:
        message = f"a form must be UTF-8, percent-encoded, with at most {_MAX_FIELDS} fields"
        raise RefusedError(Fault(status=HTTPStatus.BAD_REQUEST, message=message)) from error


async def _multipart(headers: Headers, body: bytes) -> list[tuple[str, str]]:
    async def chunks() -> AsyncGenerator[bytes, None]:
        yield body

    try:
        parser = MultiPartParser(headers, chunks(), max_files=0, max_fields=_MAX_FIELDS, max_part_size=len(body))
        form = await parser.parse()
    except (MultiPartException, KeyError) as error:
        message = f"multipart/form-data must be whole, without files, with at most {_MAX_FIELDS} fields"
        raise RefusedError(Fault(status=HTTPStatus.BAD_REQUEST, message=message)) from error
    return [(name, value) for name, value in form.multi_items() if isinstance(value, str)]


def _add(values: dict[str, list[Any]], pairs: Iterable[tuple[str, str]]) -> None:
    for name, value in pairs:
        values.setdefault(name, []).append(value)
