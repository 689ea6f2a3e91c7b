"""Messages in JSON: they are checked by their classes, and a fault names its field and no value."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, ValidationError, model_validator

from xuanzang.client import FieldViolation
from xuanzang.gateway.entry.reading import checked_json
from xuanzang.gateway.errors import SHOWN_FAULTS, Fault, RefusedError

Element = TypeVar("Element")
Asked = TypeVar("Asked", bound=BaseModel)


class _FirstFault(FailFast):
    """pydantic's own cannot be a part of a union, because it has no hash."""

    __hash__ = object.__hash__


Several = Annotated[list[Element], _FirstFault()]
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
