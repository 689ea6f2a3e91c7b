"""Inferences as translations: tensors of texts, parameters, and what the calls do, whatever carries their messages."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, cast

from xuanzang.client import FieldViolation, Model, TranslateOptions, TranslationError
from xuanzang.gateway.entry.endpoints import BaseCall
from xuanzang.gateway.entry.parameters import MAX_INT32, checked_texts, finite_number, whole_number
from xuanzang.gateway.errors import Fault, RefusedError, bad_request, fault_of, invalid, not_found
from xuanzang.gateway.translation import log_models, with_served_codes

BYTES = "BYTES"
INPUT = "text"
OUTPUT = "translation"
MAX_ID_BYTES = 256
SIZE_BYTES = 4
"""Size of the length before each element of a raw tensor, least significant byte first."""
_MAX_MICROSECONDS = 2**53
MAX_NAME_CHARACTERS = 64

_NAMES = (
    (re.compile(r"^model$"), "model_name"),
    (re.compile(r"^(options\.|settings\.)?"), "parameters."),
)


def _integer(value: Any, field: str) -> int:
    return _whole(value, field, -MAX_INT32, MAX_INT32)


def _whole(value: Any, field: str, minimum: int, maximum: int) -> int:
    # The protocol has types: a string is no number.
    return whole_number(None if isinstance(value, str) else value, field=field, minimum=minimum, maximum=maximum)


def _number(value: Any, field: str) -> float:
    return finite_number(value, field=field)


def _of_kind(kind: type[Any], what: str) -> Callable[[Any, str], Any]:
    def check(value: Any, field: str) -> Any:
        if not isinstance(value, kind):
            raise bad_request(field, f"must be {what}")
        return value

    return check


def _microseconds(value: Any, field: str) -> int:
    return _whole(value, field, 0, _MAX_MICROSECONDS)


_truth, _text = _of_kind(bool, "true or false"), _of_kind(str, "a string")
PARAMETERS: Mapping[str, Callable[[Any, str], Any]] = MappingProxyType(
    {
        "source_language_code": _text,
        "target_language_code": _text,
        "pass_through_unserved": _truth,
        "allow_pivot": _truth,
        "beam_size": _integer,
        "length_penalty": _number,
        "min_target_length": _integer,
        "max_target_length": _integer,
        "coverage_penalty": _number,
        "repetition_penalty": _number,
        "no_repeat_ngram_size": _integer,
        "target_prefix": _text,
        "partial_on_deadline": _truth,
        "refuse_long_sentences": _truth,
    }
)
"""Parameters of inferences, each with what reads it."""
_RENAMED = MappingProxyType({"source_language_code": "source_language", "target_language_code": "target_language"})
_MICROSECONDS = "timeout"
# Parameters of Triton's clients for the form of messages, and hints for a scheduler, which may be ignored.
_HINTS: Mapping[str, Callable[[Any, str], Any]] = MappingProxyType(
    {
        "binary_data_output": _truth,
        "priority": _integer,
        _MICROSECONDS: _microseconds,
        "triton_enable_empty_final_response": _truth,
    }
)
TENSOR_PARAMETERS = frozenset({"binary_data_size", "binary_data"})
"""Parameters of tensors that say how their elements are written; others ask for shared memory or classes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """A request for an inference."""

    id: str
    """Id of the caller's choice, which comes back."""
    model: str
    """Name of the model; empty: the one of the languages."""
    version: str
    """Its version; empty: the live one."""
    elements: Sequence[bytes | str]
    """Elements of the tensor of texts."""
    field: str
    """Name of their field in refusals."""
    shape: Sequence[int]
    """Its shape."""
    parameters: Mapping[str, Any]
    """Parameters by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inferred:
    """The answer to one."""

    id: str
    model: str
    version: str
    texts: Sequence[str]
    """Translations, in the shape of the texts."""


@dataclass(slots=True, kw_only=True)
class Statistics:
    """Answers of one process for a version of a model."""

    inferences: int = 0
    """Inferences that were answered."""
    texts: int = 0
    """Texts of these."""
    nanoseconds: int = 0
    """Time that these took together."""
    last_milliseconds: int = 0
    """Time of the last one, since 1970."""


@dataclass(slots=True, kw_only=True)
class Inferences:
    """Implementation of the calls. Belongs to one event loop."""

    max_texts: int
    """Maximum number of texts of an inference."""
    statistics: dict[tuple[str, str], Statistics] = field(default_factory=dict)
    """Answers by name and version of the model."""

    async def infer(self, inference: Inference, *, call: BaseCall) -> Inferred:
        """Answer an inference.

        Args:
            call: Request that needs the answer.

        Raises:
            RefusedError: The inference has a fault, or the server refused it.
        """
        if len(inference.id.encode(errors="replace")) > MAX_ID_BYTES:
            raise bad_request("id", f"must have at most {MAX_ID_BYTES} bytes")
        checked_texts(inference.elements, field=inference.field, maximum=self.max_texts)
        texts = _texts(inference)
        options, hint = _options(inference.parameters)
        options["model"] = served_model(inference.model, inference.version) or None
        began = time.monotonic_ns()
        try:
            options = await with_served_codes(call, options)
            answers = await call.client.translate(texts, timeout=call.limited(hint).seconds, **options)
        except TranslationError as error:
            raise RefusedError(_renamed(fault_of(error), inference.field)) from error
        log_models(call, answers)
        made = answers[0]
        counts = self.statistics.setdefault((made.model, made.model_version), Statistics())
        counts.inferences += 1
        counts.texts += len(texts)
        counts.nanoseconds += time.monotonic_ns() - began
        counts.last_milliseconds = int(time.time() * 1000)
        return Inferred(
            id=inference.id, model=made.model, version=made.model_version, texts=[each.text for each in answers]
        )

    async def versions(self, name: str, version: str, *, call: BaseCall) -> list[Model]:
        """Return the versions of a model that the caller may use, at least one.

        Args:
            version: Version; empty: all.
            call: Request that needs the answer.

        Raises:
            RefusedError: There is none.
            TranslationError: The server refused the call, or failed.
        """
        models = await call.client.list_models(timeout=call.seconds)
        matching = [each for each in models if is_among((each,), name, version)]
        if not matching:
            raise not_found(f"model {served_model(name, version)!r} is not served")
        return matching

    async def require_served(self, name: str, *, call: BaseCall) -> None:
        """Refuse callers whom the server would not answer, and a model that it does not have.

        Args:
            name: Name of the model; empty: none is asked for.
            call: Request that needs the answer.

        Raises:
            RefusedError: There is no such model.
            TranslationError: The server refused the call, or failed.
        """
        models = await call.client.list_models(timeout=call.seconds)
        if name and not is_among(models, name, ""):
            raise not_found(f"model {name[:MAX_NAME_CHARACTERS]!r} is not served")

    async def counted(self, name: str, version: str, *, call: BaseCall) -> list[tuple[Model, Statistics]]:
        """Return the statistics of one or all of the caller's models.

        Args:
            name: Name of the model; empty: all.
            version: Version; empty: all.
            call: Request that needs the answer.

        Raises:
            RefusedError: There is none.
            TranslationError: The server refused the call, or failed.
        """
        if name:
            models = await self.versions(name, version, call=call)
        else:
            models = await call.client.list_models(timeout=call.seconds)
        return [(each, self.statistics.get((each.name, each.version), Statistics())) for each in models]


def served_model(model: str, version: str) -> str:
    """Return the server's name of a model; empty for any.

    Args:
        model: Name, or nothing for any.
        version: Version, or nothing for the default one.

    Raises:
        RefusedError: There is a version of no model.
    """
    if version and not model:
        raise bad_request("model_version", "must be empty without model_name")
    return f"{model}/{version}" if version else model


def is_among(models: Iterable[Model], name: str, version: str) -> bool:
    """Return whether a model is served.

    Args:
        version: Version; empty: any.
    """
    return any(each.name == name and version in ("", each.version) for each in models)


def split_raw(raw: bytes, *, name: str, maximum: int) -> list[bytes]:
    """Return the elements of a raw tensor.

    Args:
        raw: Elements, each after its size.
        name: Field that holds them.
        maximum: Maximum number of elements.

    Raises:
        RefusedError: The last one is not whole, or there are too many.
    """
    elements: list[bytes] = []
    start = 0
    while start < len(raw):
        begin = start + SIZE_BYTES
        start = begin + int.from_bytes(raw[start:begin], "little")
        if begin > len(raw) or start > len(raw):
            raise bad_request(name, f"must have {SIZE_BYTES} bytes of size before each whole element")
        elements.append(raw[begin:start])
        checked_texts(elements, field=name, maximum=maximum)
    return elements


def joined_raw(texts: Iterable[str]) -> bytes:
    """Return texts as a raw tensor."""
    encoded = (text.encode() for text in texts)
    return b"".join(len(element).to_bytes(SIZE_BYTES, "little") + element for element in encoded)


def require_tensor(names: Sequence[str], *, datatype: str, parameters: Iterable[str], outputs: Sequence[str]) -> None:
    """Refuse other tensors than the ones of texts and translations.

    Args:
        datatype: Type of the first of them.
        parameters: Names of its parameters and of those of the requested tensors.
        outputs: Names of the requested tensors.

    Raises:
        RefusedError: There is another one, of another type, or with parameters that ask for more.
    """
    if list(names) != [INPUT]:
        raise bad_request("inputs", f"must be one tensor with the name {INPUT}")
    if datatype != BYTES:
        raise bad_request("inputs[0].datatype", f"must be {BYTES}")
    if others := [name for name in outputs if name != OUTPUT]:
        raise bad_request("outputs", f"must be {OUTPUT} or nothing, has {len(others)} others")
    for name in sorted(set(parameters) - TENSOR_PARAMETERS):
        shown = name[:MAX_NAME_CHARACTERS]
        raise bad_request(f"parameters.{shown}", "is not supported: there are neither classes nor shared memory")


def _texts(inference: Inference) -> list[str]:
    shape, count = tuple(inference.shape), len(inference.elements)
    if len(shape) not in (1, 2) or min(shape) < 0 or shape[1:] not in ((), (1,)) or math.prod(shape) != count:
        raise bad_request("inputs[0].shape", f"must be [{count}] or [{count}, 1] for {count} elements")
    try:
        return [each if isinstance(each, str) else each.decode() for each in inference.elements]
    except UnicodeDecodeError as error:
        raise bad_request(inference.field, "must be UTF-8") from error


def _options(parameters: Mapping[str, Any]) -> tuple[TranslateOptions, float | None]:
    """Return the options of a translation, and the seconds that it may take, or None."""
    violations: list[FieldViolation] = []
    read: dict[str, Any] = {}
    for name, value in parameters.items():
        reads = PARAMETERS.get(name) or _HINTS.get(name)
        if reads is None:
            shown, known = name[:MAX_NAME_CHARACTERS], ", ".join(PARAMETERS)
            violations.append(FieldViolation(field=f"parameters.{shown}", description=f"is unknown; known: {known}"))
            continue
        try:
            read[name] = reads(value, f"parameters.{name}")
        except RefusedError as error:
            violations.extend(error.fault.violations)
    if violations:
        raise invalid(violations)
    options = {_RENAMED.get(name, name): value for name, value in read.items() if name in PARAMETERS}
    hint = read.get(_MICROSECONDS)
    return cast("TranslateOptions", options), hint / 1e6 if hint else None


def _renamed(fault: Fault, texts: str) -> Fault:
    """Return a fault with the names of an inference, whose texts have a name of their own."""
    violations = tuple(replace(each, field=_new_name(each.field, texts)) for each in fault.violations)
    return replace(fault, violations=violations)


def _new_name(name: str, texts: str) -> str:
    if name.startswith("contents"):
        return texts + name.removeprefix("contents")
    return next(pattern.sub(new, name, count=1) for pattern, new in _NAMES if pattern.match(name))
