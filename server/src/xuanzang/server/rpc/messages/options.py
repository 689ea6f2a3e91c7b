"""Decoding options of requests: ranges, rules between options, and defaults for those left unset."""

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
    """Inclusive bounds of a value."""

    minimum: float
    maximum: float = math.inf

    def __str__(self) -> str:
        if math.isinf(self.maximum):
            return f"at least {self.minimum:g}"
        if self.minimum == _ABOVE_ZERO:
            return f"above 0 and at most {self.maximum:g}"
        return f"{self.minimum:g} to {self.maximum:g}"


_RANGES: Mapping[str, _Range] = MappingProxyType(
    {
        "beam_size": _Range(1, 16),
        "num_hypotheses": _Range(1, 16),
        "length_penalty": _Range(0, 10),
        "min_target_length": _Range(0),
        "max_target_length": _Range(1),
        "coverage_penalty": _Range(0, 10),
        # Logits are divided by it in single precision; smaller values could overflow.
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
# Options of the engine, by the settings that switch them on.
_SWITCHES: Mapping[str, str] = MappingProxyType(
    {"return_alternatives": "return_alternatives", "token_details": "token_details", "return_quality": "quality"}
)
OPTION_FIELDS = frozenset({"options", *_SWITCHES})
"""Settings of which options of the engine are made."""


def range_violations(options: pb.DecodingOptions) -> Iterable[FieldViolation]:
    """Find the values outside of their ranges."""
    yield from _out_of_range(_RANGES, _set_fields(options), path="options")
    if options.HasField("sampling"):
        yield from _out_of_range(_SAMPLING_RANGES, _set_fields(options.sampling), path="options.sampling")
    if len(options.target_prefix) > MAX_PREFIX_CHARACTERS:
        yield _size_violation("target_prefix", f"at most {MAX_PREFIX_CHARACTERS} characters", options.target_prefix)
    if len(options.suppressed_texts) > MAX_SUPPRESSED_TEXTS:
        yield _size_violation("suppressed_texts", f"at most {MAX_SUPPRESSED_TEXTS} elements", options.suppressed_texts)
    for index, text in enumerate(options.suppressed_texts):
        if not 1 <= len(text) <= MAX_SUPPRESSED_CHARACTERS:
            yield _size_violation(f"suppressed_texts[{index}]", f"1 to {MAX_SUPPRESSED_CHARACTERS} characters", text)
        elif text.isspace():
            yield FieldViolation(field=f"options.suppressed_texts[{index}]", description="must not be only white space")


def with_defaults(settings: pb.TranslationSettings, model: ServedModel) -> DecodingOptions:
    """Complete the options with the defaults of a model.

    A beam narrower than the default number of hypotheses limits that number, too.
    """
    default, options = model.default_options, settings.options
    chosen = _set_fields(options)
    chosen |= {option: True for name, option in _SWITCHES.items() if getattr(settings, name)}
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
    """Find the options that contradict each other or are not the model's to give."""
    longest = options.max_target_length or model.max_target_length
    searched_at_once = not (options.sampling or options.return_alternatives)
    if searched_at_once and options.beam_size < options.num_hypotheses <= _RANGES["num_hypotheses"].maximum:
        yield _value_violation("num_hypotheses", f"at most beam_size, {options.beam_size}", options.num_hypotheses)
    if longest > model.max_target_length:
        yield _value_violation("max_target_length", f"at most {model.max_target_length} for this model", longest)
    if options.min_target_length > longest:
        yield _value_violation("min_target_length", f"at most {longest}", options.min_target_length)
    if options.sampling and options.beam_size > 1:
        yield _value_violation("beam_size", "1 with sampling", options.beam_size)
    if options.sampling and options.return_alternatives:
        yield FieldViolation(field="return_alternatives", description="must be false with sampling")
    if options.quality and not model.has_quality_head:
        description = (
            f"needs a quality head, which the bundle of {model.name}/{model.version} lacks; the operator can fit one: "
            "docs/quality.md"
        )
        yield FieldViolation(field="return_quality", description=description)


def _sampling(options: pb.SamplingOptions) -> SamplingOptions:
    unrestricted = {"top_k": 256, "top_p": 1.0, "temperature": 1.0, "seed": secrets.randbelow(2**31)}
    return SamplingOptions(**(unrestricted | _set_fields(options)))


def _set_fields(options: pb.DecodingOptions | pb.SamplingOptions) -> dict[str, Any]:
    """Return the fields that the caller set, those set to 0 included."""
    return {field.name: value for field, value in options.ListFields()}


def _out_of_range(ranges: Mapping[str, _Range], values: Mapping[str, Any], *, path: str) -> Iterable[FieldViolation]:
    for name, limits in ranges.items():
        # NaN compares false with both bounds.
        if name in values and not limits.minimum <= values[name] <= limits.maximum:
            yield _value_violation(name, str(limits), values[name], path=path)


def _value_violation(name: str, limits: str, value: float, *, path: str = "options") -> FieldViolation:
    return FieldViolation(field=f"{path}.{name}", description=f"must be {limits}, is {value:g}")


def _size_violation(name: str, limits: str, value: Sized) -> FieldViolation:
    return FieldViolation(field=f"options.{name}", description=f"must have {limits}, has {len(value)}")
