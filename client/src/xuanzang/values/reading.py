"""Values of messages: each field of a dataclass is read from the field of the same name, in the form of its type."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache, partial
from operator import attrgetter
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.message import Message

Value = TypeVar("Value")
Reader = Callable[[Message], Any]


def value_of(kind: Callable[..., Value], message: Message, **given: Any) -> Value:
    """Return a dataclass with the fields of a message.

    A field that may be None is None where the message lacks it. An unknown number of an enumeration becomes its value
    0. A tuple or frozenset is read from a repeated field, another dataclass from a message.

    Args:
        given: Fields that the message has under another name or in another form.

    Raises:
        AttributeError: The message has no field of that name.
    """
    read = {name: reader(message) for name, reader in _readers(kind) if name not in given}
    return kind(**read, **given)


@cache
def _readers(kind: Any) -> list[tuple[str, Reader]]:
    hints = get_type_hints(kind)
    return [(field.name, _reader(field.name, hints[field.name])) for field in fields(kind)]


def _reader(name: str, kind: Any) -> Reader:
    content, (inner, *others) = attrgetter(name), get_args(kind) or (kind,)
    if NoneType in others:
        read = _reader(name, inner)
        return lambda message: read(message) if message.HasField(name) else None
    convert = _converter(inner)
    if (container := get_origin(kind)) in (tuple, frozenset):
        return lambda message: container(map(convert, content(message)) if convert else content(message))
    return (lambda message: convert(content(message))) if convert else content


def _converter(kind: Any) -> Callable[[Any], Any] | None:
    """Return the function from the content of a field to a value of a type; None if they are the same."""
    is_value = is_dataclass(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        members = {each.value: each for each in kind}
        return lambda number: members.get(number, members[0])
    return partial(value_of, kind) if is_value else None
