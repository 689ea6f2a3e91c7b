"""Reference of a proto file, of its comments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

# Numbers of fields of descriptors, of which the paths of comments are made.
_MESSAGE, _ENUM, _SERVICE = 4, 5, 6
_FIELD = _VALUE = _METHOD = 2
_NESTED_MESSAGE, _NESTED_ENUM = 3, 4
_TYPES = {number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()}

Place = tuple[int, ...]
"""Path of an element in its file."""


class ProtoPage:
    """Writes the page of one file."""

    def __init__(self, title: str, file: FileDescriptorProto) -> None:
        """Read the comments of a file."""
        self._title, self._file = title, file
        self._comments = {tuple(each.path): each.leading_comments for each in file.source_code_info.location}
        self._own = {f".{file.package}.{name}" for name in _names(file)}

    def text(self) -> str:
        """Return the page."""
        file = self._file
        head = f"# {self._title}\n\n`{file.name}`, package `{file.package}`.\n"
        services = (self._service(each, (_SERVICE, number)) for number, each in enumerate(file.service))
        messages = (self._message(each, (_MESSAGE, number)) for number, each in enumerate(file.message_type))
        enums = (self._enum(each, (_ENUM, number)) for number, each in enumerate(file.enum_type))
        return "\n".join([head, *chain.from_iterable([*services, *messages, *enums])])

    def _service(self, service: ServiceDescriptorProto, place: Place) -> Iterator[str]:
        yield f"## Service {service.name}\n\n{self._comment(place)}\n"
        for number, method in enumerate(service.method):
            asked = ("stream " if method.client_streaming else "") + self._name(method.input_type)
            answered = ("stream " if method.server_streaming else "") + self._name(method.output_type)
            yield f"### {method.name}\n\n{asked} → {answered}\n\n{self._comment((*place, _METHOD, number))}\n"

    def _message(self, message: DescriptorProto, place: Place, outer: str = "") -> Iterator[str]:
        name = f"{outer}{message.name}"
        yield f"## {name}\n\n{self._comment(place)}\n"
        rows = [
            (field.name, str(field.number), self._type(field), self._cell((*place, _FIELD, number)))
            for number, field in enumerate(message.field)
        ]
        yield from _table(("field", "number", "type", "meaning"), rows)
        for number, nested in enumerate(message.nested_type):
            if not nested.options.map_entry:
                yield from self._message(nested, (*place, _NESTED_MESSAGE, number), f"{name}.")
        for number, enum in enumerate(message.enum_type):
            yield from self._enum(enum, (*place, _NESTED_ENUM, number), f"{name}.")

    def _enum(self, enum: EnumDescriptorProto, place: Place, outer: str = "") -> Iterator[str]:
        yield f"## {outer}{enum.name}\n\n{self._comment(place)}\n"
        values = enumerate(enum.value)
        rows = [(value.name, str(value.number), self._cell((*place, _VALUE, number))) for number, value in values]
        yield from _table(("value", "number", "meaning"), rows)

    def _type(self, field: FieldDescriptorProto) -> str:
        name = self._name(field.type_name) if field.type_name else _TYPES[field.type]
        if field.label == FieldDescriptorProto.LABEL_REPEATED:
            return f"repeated {name}"
        return f"optional {name}" if field.proto3_optional else name

    def _name(self, type_name: str) -> str:
        """Return the name of a type; a link, if it is on this page."""
        inner = type_name.removeprefix(f".{self._file.package}.")
        return f"[`{inner}`](#{inner.replace('.', '').lower()})" if type_name in self._own else f"`{inner.lstrip('.')}`"

    def _comment(self, place: Place) -> str:
        lines = self._comments.get(place, "").strip().splitlines()
        return "\n".join(line.strip() for line in lines).replace("<", "&lt;")

    def _cell(self, place: Place) -> str:
        return " ".join(self._comment(place).split()).replace("|", "\\|")


def _names(file: FileDescriptorProto) -> Iterator[str]:
    """Yield the names of a file's messages and enumerations, nested ones with those around them."""
    for message in file.message_type:
        yield from _nested(message)
    yield from (enum.name for enum in file.enum_type)


def _nested(message: DescriptorProto) -> Iterator[str]:
    yield message.name
    for inner in message.nested_type:
        yield from (f"{message.name}.{name}" for name in _nested(inner))
    yield from (f"{message.name}.{enum.name}" for enum in message.enum_type)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    listed = [f"| `{row[0]}` | {' | '.join(row[1:])} |" for row in rows]
    if listed:
        yield "\n".join([f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *listed]) + "\n"
