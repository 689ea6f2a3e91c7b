"""Decoding options: the range of each, what must hold between them, and what stands for those that are left out."""

from __future__ import annotations

import dataclasses
import math
import secrets
from collections.abc import Iterable, Mapping, Sized
from types import MappingProxyType
from typing import Any, NamedTuple

from xuanzang.server.engine.errors import FieldViolation
from xuanzang.server.engine.types import DecodingOptions, SamplingOptions, ServedModel
from xuanzang.translation.v1 import translation_pb2 as pb

MAX_PREFIX_CHARACTERS = 2000
MAX_SUPPRESSED_TEXTS = 64
MAX_SUPPRESSED_CHARACTERS = 100

_ABOVE_ZERO = math.ulp(0.0)


class _Range(NamedTuple):
    """The least and the greatest value."""

    least: float
    most: float = math.inf

    def __str__(self) -> str:
        if math.isinf(self.most):
            return f"at least {self.least:g}"
        return f"above 0 and at most {self.most:g}" if self.least == _ABOVE_ZERO else f"{self.least:g} to {self.most:g}"


_RANGES: Mapping[str, _Range] = MappingProxyType(
    {
        "beam_size": _Range(1, 16),
        "num_hypotheses": _Range(1, 16),
        "length_penalty": _Range(0, 10),
        "min_target_length": _Range(0),
        "max_target_length": _Range(1),
        "coverage_penalty": _Range(0, 10),
        # Logits are divided by it in single precision, which must not overflow.
        "repetition_penalty": _Range(0.1, 10),
        "no_repeat_ngram_size": _Range(0, 16),
    }
)
_SAMPLING_RANGES: Mapping[str, _Range] = MappingProxyType(
    {
        "top_k": _Range(1, 256),
        "top_p": _Range(_ABOVE_ZERO, 1),
        "temperature": _Range(_ABOVE_ZERO, 10),
        "seed": _Range(0),
    }
)


def range_violations(options: pb.DecodingOptions) -> Iterable[FieldViolation]:
    """Find the faults that options have by themselves.

    Args:
        options: As received.

    Yields:
        One for each value outside of its range.
    """
    if not options.ListFields():
        return
    yield from _outside(_RANGES, _set_fields(options), path="options")
    yield from _outside(_SAMPLING_RANGES, _set_fields(options.sampling), path="options.sampling")
    if len(options.target_prefix) > MAX_PREFIX_CHARACTERS:
        yield _size_violation("target_prefix", f"at most {MAX_PREFIX_CHARACTERS} characters", options.target_prefix)
    if len(options.suppressed_texts) > MAX_SUPPRESSED_TEXTS:
        yield _size_violation("suppressed_texts", f"at most {MAX_SUPPRESSED_TEXTS} elements", options.suppressed_texts)
    for index, text in enumerate(options.suppressed_texts):
        if not 1 <= len(text) <= MAX_SUPPRESSED_CHARACTERS:
            yield _size_violation(f"suppressed_texts[{index}]", f"1 to {MAX_SUPPRESSED_CHARACTERS} characters", text)
        elif text.isspace():
            yield FieldViolation(field=f"options.suppressed_texts[{index}]", description="must not be only white space")


def with_defaults(options: pb.DecodingOptions, model: ServedModel) -> DecodingOptions:
    """Complete what the caller left out with the model's defaults, narrowed where the caller's own choice is narrower.

    Args:
        options: As received.
        model: That is to translate.

    Returns:
        All options.
    """
    default = model.default_options
    chosen = _set_fields(options)
    chosen.pop("return_scores", None)
    if not chosen:
        return default
    if options.suppressed_texts:
        chosen["suppressed_texts"] = tuple(options.suppressed_texts)
    if options.HasField("sampling"):
        chosen = {"beam_size": 1} | chosen | {"sampling": _sampling(options.sampling)}
    num_hypotheses = min(default.num_hypotheses, chosen.get("beam_size", default.num_hypotheses))
    completed: DecodingOptions = dataclasses.replace(default, **({"num_hypotheses": num_hypotheses} | chosen))
    return completed


def mutual_violations(options: DecodingOptions, model: ServedModel) -> Iterable[FieldViolation]:
    """Find the faults that options have beside each other, or beside the model.

    Args:
        options: All of them.
        model: That is to translate.

    Yields:
        One for each option that does not fit.
    """
    longest = options.max_target_length or model.max_target_length
    searched_at_once = not (options.sampling or options.return_alternatives)
    if searched_at_once and options.beam_size < options.num_hypotheses <= _RANGES["num_hypotheses"].most:
        yield _value_violation("num_hypotheses", f"at most beam_size, {options.beam_size}", options.num_hypotheses)
    if longest > model.max_target_length:
        yield _value_violation("max_target_length", f"at most {model.max_target_length} for this model", longest)
    if options.min_target_length > longest:
        yield _value_violation("min_target_length", f"at most {longest}", options.min_target_length)
    if options.sampling and options.beam_size > 1:
        yield _value_violation("beam_size", "1 with sampling", options.beam_size)
    if options.sampling and options.return_alternatives:
        yield FieldViolation(field="options.return_alternatives", description="must be false with sampling")


def _sampling(options: pb.SamplingOptions) -> SamplingOptions:
    anything = {"top_k": 256, "top_p": 1.0, "temperature": 1.0, "seed": secrets.randbelow(2**31)}
    return SamplingOptions(**(anything | _set_fields(options)))


def _set_fields(options: pb.DecodingOptions | pb.SamplingOptions) -> dict[str, Any]:
    """What the caller set; a field that was set to 0 is one of them."""
    return {field.name: value for field, value in options.ListFields()}


def _outside(ranges: Mapping[str, _Range], values: Mapping[str, Any], *, path: str) -> Iterable[FieldViolation]:
    for name, limits in ranges.items():
        # NaN compares false with both limits.
        if name in values and not limits.least <= values[name] <= limits.most:
            yield _value_violation(name, str(limits), values[name], path=path)


def _value_violation(name: str, limits: str, value: float, *, path: str = "options") -> FieldViolation:
    return FieldViolation(field=f"{path}.{name}", description=f"must be {limits}, is {value:g}")


def _size_violation(name: str, limits: str, value: Sized) -> FieldViolation:
    return FieldViolation(field=f"options.{name}", description=f"must have {limits}, has {len(value)}")
