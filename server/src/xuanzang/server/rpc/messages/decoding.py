"""Decoding of request messages whose size and number of elements are the caller's choice.

A message of 16 MB can have eight million elements, and the decoder keeps the interpreter for up to a second meanwhile.
So a large message is decoded in slices, each in a few milliseconds, and is refused at the first element over a limit.
That the slices of a message merge into the message is a rule of the wire format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.glossaries import MAX_FILE_ENTRIES, MAX_TARGETS
from xuanzang.server.rpc.limits import SMALL_BYTES
from xuanzang.server.rpc.messages.requests import MAX_CONTENTS, MAX_SUPPRESSED_TEXTS
from xuanzang.server.rpc.messages.terms import MAX_ENTRIES

_SLICE_BYTES = 32 * 2**10
_MAX_ELEMENTS: Mapping[str, int] = MappingProxyType(
    {
        "contents": MAX_CONTENTS,
        "entries": MAX_FILE_ENTRIES,
        "glossary_entries": MAX_ENTRIES,
        "suppressed_texts": MAX_SUPPRESSED_TEXTS,
        "targets": MAX_TARGETS,
    }
)
MAX_OTHER_ELEMENTS: Final = 64
"""Maximum elements of fields without a larger limit, and how often any other field may be sent in a large message."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES: Mapping[int, int] = MappingProxyType({_FIXED64: 8, _FIXED32: 4})
_MAX_VARINT_BYTES, _MAX_CHARACTER_BYTES = 10, 4

AnyMessage = TypeVar("AnyMessage", bound=Message)


class _Field(NamedTuple):
    """A field on the wire, with its places in the data."""

    number: int
    start: int
    content: int
    """Place behind the tag and the length."""
    end: int
    has_length: bool


def decode(new: Callable[[], AnyMessage], data: bytes, *, max_characters: int | None = None) -> AnyMessage:
    """Decode a message of a class, with a limit on the characters of its texts.

    Raises:
        DecodeError: It is not one.
        InvalidInputError: A field of a large message has more elements than any request may have, or a text has more
            bytes than its characters can have.
    """
    message = new()
    if len(data) <= SMALL_BYTES:
        message.MergeFromString(data)
    else:
        if max_characters is not None and "settings" in message.DESCRIPTOR.fields_by_name:
            _require_short(message, data, max_characters)
        _merge(message, data, "")
    return message


def identified(new: Callable[[], AnyMessage], data: bytes) -> AnyMessage:
    """Return a message with only its `id`, to answer one over a limit."""
    message = new()
    fields: Mapping[int, Any] = message.DESCRIPTOR.fields_by_number
    for field in islice(_fields(data), MAX_OTHER_ELEMENTS):
        if field.number in fields and fields[field.number].name == "id":
            message.MergeFromString(data[field.start : field.end])
    return message


def _require_short(message: Message, data: bytes, max_characters: int) -> None:
    """Raise InvalidInputError for texts that are far too long, which to read would take as long as all else."""
    fields: Mapping[int, Any] = message.DESCRIPTOR.fields_by_number
    counts, violations = Counter[str](), []
    for field in islice(_fields(data), MAX_CONTENTS):
        name = fields[field.number].name if field.number in fields else ""
        if name in ("content", "contents"):
            if field.end - field.content > _MAX_CHARACTER_BYTES * max_characters:
                place = f"contents[{counts[name]}]" if name == "contents" else name
                description = f"must have at most {max_characters} characters, has more"
                violations.append(FieldViolation(field=place, description=description))
            counts[name] += 1
    if violations:
        raise InvalidInputError(violations)


def _merge(message: Message, data: bytes, path: str) -> None:
    """Merge data into a message in slices; fields that are larger than a slice are messages or single texts."""
    fields: Mapping[int, Any] = message.DESCRIPTOR.fields_by_number
    counts, start = Counter[int](), 0
    for field in _fields(data):
        descriptor = fields.get(field.number)
        counts[field.number] += 1
        _require_few(descriptor, counts[field.number], field, path)
        is_large = field.end - field.start > _SLICE_BYTES
        if is_large and descriptor is not None and descriptor.message_type is not None and field.has_length:
            message.MergeFromString(data[start : field.start])
            value = getattr(message, descriptor.name)
            part = value.add() if descriptor.is_repeated else value
            part.SetInParent()
            _merge(part, data[field.content : field.end], f"{path}{descriptor.name}.")
            start = field.end
        elif field.end - start > _SLICE_BYTES:
            message.MergeFromString(data[start : field.end])
            start = field.end
    message.MergeFromString(data[start:])


def _require_few(descriptor: FieldDescriptor | None, count: int, field: _Field, path: str) -> None:
    """Raise an error for a field that was sent too often, or has too many numbers."""
    limit = MAX_OTHER_ELEMENTS if descriptor is None else _MAX_ELEMENTS.get(descriptor.name, MAX_OTHER_ELEMENTS)
    if descriptor is None or not descriptor.is_repeated:
        if count > limit:
            raise DecodeError(f"field {field.number} is there more than {limit} times")
        return
    if field.has_length and descriptor.cpp_type not in (
        FieldDescriptor.CPPTYPE_STRING,
        FieldDescriptor.CPPTYPE_MESSAGE,
    ):
        # Numbers stand together in one field.
        count = max(count, (field.end - field.content) // _MAX_VARINT_BYTES)
    if count > limit:
        description = f"must have at most {limit} elements, has more"
        raise InvalidInputError([FieldViolation(field=f"{path}{descriptor.name}", description=description)])


def _fields(data: bytes) -> Iterator[_Field]:
    """Yield the fields of a message; DecodeError: the data ends within one, or has one of an unknown type."""
    position, length = 0, len(data)
    while position < length:
        start = position
        tag, position = _varint(data, position)
        kind, content = tag & 7, position
        if kind == _VARINT:
            _, position = _varint(data, position)
        elif kind == _BYTES:
            size, content = _varint(data, position)
            position = content + size
        elif kind in _FIXED_BYTES:
            position += _FIXED_BYTES[kind]
        else:
            raise DecodeError(f"wire type {kind}")
        if position > length:
            raise DecodeError("the message is not whole")
        yield _Field(tag >> 3, start, content, position, kind == _BYTES)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    value = shift = 0
    for byte in data[position : position + _MAX_VARINT_BYTES]:
        value |= (byte & 127) << shift
        position += 1
        if byte < 128:
            return value, position
        shift += 7
    raise DecodeError("the message is not whole")
