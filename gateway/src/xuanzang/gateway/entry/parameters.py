"""Parameters of a request: those of its address and those of its body, which is a form or JSON."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, ValidationError, model_validator
from starlette.datastructures import Headers

from xuanzang.client import FieldViolation, TranslateOptions
from xuanzang.gateway.entry import reading
from xuanzang.gateway.entry.reading import checked_json
from xuanzang.gateway.errors import SHOWN_FAULTS, Fault, RefusedError, bad_request

Element = TypeVar("Element")
Asked = TypeVar("Asked", bound=BaseModel)


class _FirstFault(FailFast):
    """pydantic's own cannot be a part of a union, because it has no hash."""

    __hash__ = object.__hash__


FailFastList = Annotated[list[Element], _FirstFault()]
"""A list that is only searched for its first fault: there may be hundreds of thousands."""


class Message(BaseModel):
    """Base of all messages: a field that does not exist is an error."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_size(cls, given: object) -> object:
        """Refuse an object of more members than there are fields, before each of them is a fault."""
        if isinstance(given, dict) and len(given) > len(cls.model_fields):
            raise ValueError(f"has {len(given)} members, and only {', '.join(cls.model_fields)} exist")
        return given


def validated(kind: type[Asked], body: bytes, *, names: Mapping[str, str] = MappingProxyType({})) -> Asked:
    """Return the message of a body.

    Args:
        body: JSON.
        names: Names of the gRPC service for fields that an API renders by these.

    Raises:
        RefusedError: The body is no such message.
    """
    try:
        return kind.model_validate_json(checked_json(body))
    except ValidationError as error:
        # Its messages name types and limits; the values stay out.
        violations = tuple(
            FieldViolation(field=_path(fault["loc"], names), description=fault["msg"].removeprefix("Value error, "))
            for fault in error.errors(include_url=False, include_input=False, include_context=False)[:SHOWN_FAULTS]
        )
        status, message = HTTPStatus.BAD_REQUEST, "the request is not valid"
        count = error.error_count()
        raise RefusedError(
            Fault(status=status, message=message, violations=violations, violation_count=count)
        ) from error


def _path(location: tuple[int | str, ...], names: Mapping[str, str]) -> str:
    first = names.get(str(location[0]), location[0]) if location else ""
    # For a field of several types, pydantic adds the type that it tried.
    rest = [each for each in location[1:] if each != "str" and not str(each).startswith("list[")]
    path = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in (first, *rest))
    return path.removeprefix(".")


_WHOLE = re.compile(r"[+-]?[0-9]{1,18}(?:\.0{1,18})?")
MAX_INT32 = 2**31 - 1
"""Greatest number of the server's messages; the least is its negative."""
Item = TypeVar("Item")
TRUTH_VALUES = ("0", "1", "false", "true")
"""Values of a parameter that is true or false, as forms and addresses have them."""
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

    def choice(self, name: str, values: Collection[str]) -> str | None:
        """Return the value of a parameter that selects one of several, in small letters; None if it is missing.

        Args:
            values: Values that the API defines, in small letters.

        Raises:
            RefusedError: It has another value.
        """
        value = (self.scalar(name) or "").lower()
        if value and value not in values:
            raise bad_request(name, f"must be {listed_values(values)}")
        return value or None

    def whole(self, name: str, *, minimum: int, maximum: int) -> int | None:
        """Return a parameter that is a whole number, also written as "3" or 3.0; None if it is missing or empty.

        Raises:
            RefusedError: It is none, or out of range.
        """
        value = self._values.get(name, [None])[-1]
        return None if value in (None, "") else whole_number(value, field=name, minimum=minimum, maximum=maximum)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Values of a parameter without an effect."""

    fulfilled: tuple[str, ...]
    """Values that ask for what happens anyway, in small letters."""
    ignored: tuple[str, ...] = ()
    """Other values that the API defines."""

    def is_fulfilled(self, given: Parameters, name: str) -> bool:
        """Return whether a parameter is missing, or asks for what happens anyway.

        Raises:
            RefusedError: The API does not define its value.
        """
        value = given.choice(name, (*self.fulfilled, *self.ignored))
        return value is None or value in self.fulfilled


def read_parameters(*, query: bytes, headers: Headers, body: bytes, takes_elements: bool = False) -> Parameters:
    """Read the parameters of a request.

    Args:
        takes_elements: Whether the body may be a JSON array.

    Raises:
        RefusedError: The body is broken, or of another type.
    """
    values: dict[str, list[Any]] = {}
    _add(values, reading.pairs(query))
    if not body:
        return Parameters(values)
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or _is_json_as_text(kind, body):
        given = reading.json_value(body)
        if takes_elements and isinstance(given, list):
            return Parameters(values, given)
        members = _object(given)
        for name in values.keys() & members.keys():
            raise bad_request(name[:64], "must be given once, in the address or in the body")
        values.update({name: [value] for name, value in members.items()})
    elif kind == reading.MULTIPART:
        _add(values, reading.read_multipart(headers, body).fields)
    elif kind in ("", reading.FORM):
        reading.require_charset(headers)
        _add(values, reading.pairs(body))
    else:
        message = f"the body must be application/json, {reading.FORM} or {reading.MULTIPART}"
        raise RefusedError(Fault(status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message=message))
    return Parameters(values)


def _is_json_as_text(kind: str, body: bytes) -> bool:
    """Return whether a body is JSON that a program labels as text, which spares browsers a preflight request."""
    return kind in ("", "text/plain", reading.FORM) and body[:64].lstrip()[:1] in (b"{", b"[")


def checked_texts(texts: Sequence[Item], *, field: str, maximum: int) -> Sequence[Item]:
    """Return texts, if there are some and not too many.

    Raises:
        RefusedError: There are none or too many.
    """
    if not texts:
        raise bad_request(field, "must be given")
    if len(texts) > maximum:
        limit = "one text" if maximum == 1 else f"at most {maximum} texts"
        raise bad_request(field, f"must be {limit}, are {len(texts)}")
    return texts


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

    Raises:
        RefusedError: It is neither true nor false.
    """
    if value is None:
        return {}
    if value.lower() not in TRUTH_VALUES:
        raise bad_request(field, f"must be {listed_values(TRUTH_VALUES)}")
    return {"pass_through_unserved": value.lower() in ("1", "true")}


def listed_values(values: Collection[str]) -> str:
    """Return values for a message, such as '"html" or "xml"'."""
    if set(values) == set(TRUTH_VALUES):
        return "true or false"
    *others, last = [f'"{value}"' for value in sorted(values)]
    return f"{', '.join(others)} or {last}" if others else last


def whole_number(value: object, *, field: str, minimum: int, maximum: int) -> int:
    """Return a value of JSON or a form as a whole number: 3, 3.0 or "3", but not true, "³" or a number without end.

    Raises:
        RefusedError: It is none, or out of range.
    """
    number: int | None = None
    match value:
        case bool():
            pass
        case int():
            number = value
        case float() if value.is_integer():
            number = int(value)
        case str() if _WHOLE.fullmatch(value.strip()):
            number = int(value.partition(".")[0])
    if number is None or not minimum <= number <= maximum:
        raise bad_request(field, f"must be a whole number from {minimum} to {maximum}")
    return number


def finite_number(value: object, *, field: str) -> float:
    """Return a value of JSON as a number that the server's messages can hold.

    Raises:
        RefusedError: It is none, not finite, or too large.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not -MAX_INT32 <= value <= MAX_INT32:
        raise bad_request(field, f"must be a number from {-MAX_INT32} to {MAX_INT32}")
    return float(value)


def json_object(body: bytes) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        RefusedError: The body is no JSON, or no object.
    """
    return _object(reading.json_value(body))


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RefusedError(Fault(status=HTTPStatus.BAD_REQUEST, message="the body must be a JSON object"))
    return value


def _add(values: dict[str, list[Any]], pairs: Iterable[tuple[str, str]]) -> None:
    for name, value in pairs:
        values.setdefault(name, []).append(value)
