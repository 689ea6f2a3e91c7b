"""Flags of commands whose arguments are a pydantic model, which the rooms that have such commands bring along.

Every field is a flag. What a flag means, its type and its range stand in the model alone.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from argparse import SUPPRESS, BooleanOptionalAction
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from xuanzang.command.parser import CommandParser, fail


class Positional:
    """Marks a field whose values are given without a flag: `Annotated[Path, Positional()]`."""


Model = TypeVar("Model", bound=BaseModel)

_VALUES_BY_NAME = {
    "address": "HOST:PORT",
    "_seconds": "SECONDS",
    "_bytes": "BYTES",
    "_language": "CODE",
    "server": "HOST:PORT",
    "model": "NAME",
}
_VALUES_BY_TYPE = {int: "N", float: "X", Path: "PATH"}


class _Shape(NamedTuple):
    """Notation of the values of a field."""

    kind: Any
    """Type of a value."""
    container: type | None = None
    """list or dict, if there may be several."""


def read_flags(model: type[Model], arguments: Sequence[str], *, program: str, variables: str = "") -> Model:
    """Read the arguments of a command; exit if they are wrong.

    Args:
        model: Model of the arguments; its docstring is the description, its fields are the flags. A model of
            pydantic-settings reads the environment as well, and flags win.
        program: Program and command, such as "xuanzang serve".
        variables: Prefix of the environment variables that the model reads, for messages.

    Raises:
        SystemExit: With status 2, after one line per fault on standard error; with status 0, after `--help`.
    """
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    parser = _FlagParser(model, prog=program, description=_description(model), argument_default=SUPPRESS)
    groups: dict[type[BaseModel], Any] = {}
    for name, field in model.model_fields.items():
        _add(_group_of(parser, groups, model, name), field.alias or name, field)
    given = vars(parser.parse_args(arguments))
    try:
        values = {name: _values(fields[name], name, value) for name, value in given.items()}
        return model(**values)
    except ValidationError as error:
        faults = [_fault(fields, fault["loc"], _reason(fault), variables) for fault in error.errors()]
        raise SystemExit(fail(program, *faults)) from None
    except (OSError, ValueError) as error:
        raise SystemExit(fail(program, str(error))) from None


def field_texts(model: type[BaseModel]) -> dict[str, str]:
    """Return the descriptions of a model's fields, or else the docstrings beneath them, by name.

    Docstrings are read from the source, which pydantic does for `use_attribute_docstrings` whenever a model is made:
    that takes some 35 ms of each start of a server.
    """
    texts: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if not issubclass(each, BaseModel) or each.__module__.startswith("pydantic"):
            continue
        try:
            source = ast.parse(textwrap.dedent(inspect.getsource(each)))
        except OSError:
            # Installed without sources.
            continue
        body = next(part.body for part in source.body if isinstance(part, ast.ClassDef))
        for field, beneath in pairwise(body):
            match field, beneath:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[name] = inspect.cleandoc(text)
    described = {name: field.description for name, field in model.model_fields.items() if field.description}
    return texts | described


class _FlagParser(CommandParser):
    """A parser that reads the descriptions of flags only when the help is printed."""

    def __init__(self, model: type[BaseModel], **options: Any) -> None:
        super().__init__(**options)
        self._model = model

    def format_help(self) -> str:
        """Return the help, with the descriptions of the fields."""
        texts = field_texts(self._model)
        fields = {field.alias or name: (name, field) for name, field in self._model.model_fields.items()}
        for action in self._actions:
            if action.dest in fields:
                name, field = fields[action.dest]
                action.help = _help(field, texts.get(name, "")).replace("%", "%%")
        return super().format_help()


def _description(model: type[BaseModel]) -> str:
    return inspect.cleandoc(model.__doc__ or "")


def _group_of(parser: CommandParser, groups: dict[type[BaseModel], Any], model: type[BaseModel], name: str) -> Any:
    """Return the group of a flag in the help: flags of each inherited model stand together, under its first line."""
    declaring = next(
        each for each in reversed(model.__mro__) if issubclass(each, BaseModel) and name in each.model_fields
    )
    if declaring is model or declaring.__name__.startswith("_"):
        return parser
    if declaring not in groups:
        title = _description(declaring).partition("\n")[0].removesuffix(".")
        groups[declaring] = parser.add_argument_group(title)
        # All flags in a row fill a screen.
        positional = [each.upper() for each, field in model.model_fields.items() if _is_positional(field)]
        parser.usage = " ".join(("%(prog)s", "[OPTION ...]", *(f"[{each} ...]" for each in positional)))
    return groups[declaring]


def _add(parser: Any, name: str, field: FieldInfo) -> None:
    shape = _shape(field.annotation)
    if _is_positional(field):
        several = {"nargs": "*" if not field.is_required() else "+"} if shape.container else {}
        parser.add_argument(name, metavar=_flag(name).upper(), **several)
    elif shape.kind is bool:
        parser.add_argument(f"--{_flag(name)}", action=BooleanOptionalAction)
    elif shape.container:
        value = _value_name(name, shape.kind)
        shown = f"NAME={value}" if shape.container is dict else value
        parser.add_argument(f"--{_flag(name)}", action="extend", nargs="+", metavar=shown)
    else:
        # Not argparse's own: the model words all faults of values in one style.
        parser.add_argument(f"--{_flag(name)}", metavar=_value_name(name, shape.kind))


def _is_positional(field: FieldInfo) -> bool:
    return any(isinstance(mark, Positional) for mark in field.metadata)


def _shape(annotation: Any) -> _Shape:
    if get_origin(annotation) is Annotated:
        return _shape(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return _shape(next(each for each in get_args(annotation) if each is not NoneType))
    if get_origin(annotation) in (list, tuple):
        return _Shape(_shape(get_args(annotation)[0]).kind, list)
    if get_origin(annotation) in (dict, Mapping):
        return _Shape(_shape(get_args(annotation)[1]).kind, dict)
    return _Shape(annotation)


def _help(field: FieldInfo, text: str) -> str:
    text = " ".join(text.split()).removesuffix(".")
    if field.is_required():
        return text if _is_positional(field) else f"{text} (required)"
    default = field.default
    if default is None or default in ("", False) or field.default_factory is not None:
        return text
    return f"{text} (default: {'on' if default is True else default})"


def _value_name(name: str, kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "{" + ",".join(map(str, get_args(kind))) + "}"
    by_name = (word for ending, word in _VALUES_BY_NAME.items() if name.endswith(ending) and kind is not Path)
    by_type = (word for each, word in _VALUES_BY_TYPE.items() if issubclass(kind, each))
    return [*by_name, *by_type, "TEXT"][0]


def _values(field: FieldInfo, name: str, given: Any) -> Any:
    if _shape(field.annotation).container is not dict:
        return given
    return dict(_named(name, each) for each in given)


def _named(name: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise ValueError(f"--{_flag(name)}: must be NAME=VALUE, got {text!r}")
    return key, value


def _fault(fields: Mapping[str, FieldInfo], location: Sequence[int | str], reason: str, variables: str) -> str:
    return f"{' '.join(_place(fields, location, variables))}: {reason}" if location else reason


def _reason(fault: Mapping[str, Any]) -> str:
    if fault["type"] == "missing":
        return "must be given"
    message = fault["msg"].removeprefix("Value error, ")
    return f"{message}, got {str(fault['input'])!r}" if fault["loc"] else message


def _place(fields: Mapping[str, FieldInfo], location: Sequence[int | str], variables: str) -> Iterator[str]:
    name, *inner = location
    field = fields.get(str(name))
    is_flag = field is None or not _is_positional(field)
    yield f"--{_flag(str(name))}" if is_flag else _flag(str(name)).upper()
    yield from (str(part) for part in inner if isinstance(part, str) and part != "[key]")
    if variables:
        yield f"({variables}{str(name).upper()})"


def _flag(name: str) -> str:
    return name.replace("_", "-")
