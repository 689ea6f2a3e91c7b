"""Parameters of inferences: languages, and the options of a search by the names that they have in DecodingOptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from xuanzang.inference.v2 import inference_pb2 as v2
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.translation.v1 import translation_pb2 as pb

OF_REQUESTS: Final[Mapping[str, int]] = MappingProxyType(
    {
        name: pb.TranslationSettings.DESCRIPTOR.fields_by_name[name].cpp_type
        for name in ("source_language_code", "target_language_code", "pass_through_unserved")
    }
)
"""Settings beside the options of the search that are parameters, with their types in protobuf."""
# There is a tensor for the best translation alone.
_WITHOUT_TENSOR = "num_hypotheses"
_MAX_INT32 = 2**31 - 1
_MAX_NAME_CHARACTERS = 64


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -_MAX_INT32 <= value <= _MAX_INT32


_KINDS: Mapping[int, tuple[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        FieldDescriptor.CPPTYPE_INT32: ("an integer", _is_integer),
        FieldDescriptor.CPPTYPE_FLOAT: ("a number", lambda value: isinstance(value, float) or _is_integer(value)),
        FieldDescriptor.CPPTYPE_BOOL: ("true or false", lambda value: isinstance(value, bool)),
        FieldDescriptor.CPPTYPE_STRING: ("a string", lambda value: isinstance(value, str)),
    }
)

OPTIONS: Final[Mapping[str, int]] = MappingProxyType(
    {
        field.name: field.cpp_type
        for field in pb.DecodingOptions.DESCRIPTOR.fields
        if field.cpp_type in _KINDS and not field.is_repeated and field.name != _WITHOUT_TENSOR
    }
)
"""Options of a search that are parameters, with their types in protobuf."""

_NAMES = (*OF_REQUESTS, *OPTIONS)


def read_parameters(parameters: Mapping[str, v2.InferParameter]) -> dict[str, Any]:
    """Read the parameters of an inference.

    Args:
        parameters: Parameters by name.

    Returns:
        Their values by name: languages and options.

    Raises:
        InvalidInputError: Some are unknown, or have values of another type; the error names all of them.
    """
    values = {name: _value(parameter) for name, parameter in parameters.items()}
    violations = [fault for name, value in values.items() if (fault := _violation(name, value))]
    if violations:
        raise InvalidInputError(violations[: len(_NAMES)])
    return values


def _value(parameter: v2.InferParameter) -> Any:
    kind = parameter.WhichOneof("parameter_choice")
    return None if kind is None else getattr(parameter, kind)


def _violation(name: str, value: Any) -> FieldViolation | None:
    if name not in _NAMES:
        shown = name[:_MAX_NAME_CHARACTERS]
        return FieldViolation(field=f"parameters.{shown}", description=f"is unknown; known: {', '.join(_NAMES)}")
    what, fits = _KINDS[OF_REQUESTS[name] if name in OF_REQUESTS else OPTIONS[name]]
    return None if fits(value) else FieldViolation(field=f"parameters.{name}", description=f"must be {what}")
