"""Request messages, checked and completed. All faults of a request are found before any is reported.

Requests share their settings. Here and in the engine, errors name fields of settings without "settings."; what
leaves the server names them as the caller sent them (`as_sent`).
"""

from __future__ import annotations

import dataclasses
import math
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from xuanzang.server.access.callers import Resolve
from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.errors import FieldViolation, InvalidInputError, ModelNotFoundError
from xuanzang.server.engine.glossaries import GlossaryFolder
from xuanzang.server.engine.request_router import Offload
from xuanzang.server.engine.types import DecodingOptions, Route, SamplingOptions, ServedModel
from xuanzang.server.rpc.messages.terms import (
    TERM_FIELDS,
    read_terms,
    search_violations,
    term_fields,
    term_index,
    term_violations,
)
from xuanzang.text.spans.carrying import without_placeholders
from xuanzang.text.terminology.terms import NO_TERMS, TermIndex
from xuanzang.text.types import ContentFormat, PlaceholderFamily
from xuanzang.translation.v1 import translation_pb2 as pb

MAX_CONTENTS = 1024
MAX_NAME_CHARACTERS = 300
"""Maximum characters of the name of a model with its version, of a glossary, and of a language."""
MAX_ID_BYTES = 256

_CONTENTS = re.compile(r"\bcontents(\[0\])?")
_BESIDE_SETTINGS = re.compile(r"(contents?|id|attention_\w+)\b")
_TAGS = re.compile(r"<(script|style)\b.*?(?:</\1\s*>|\Z)|<[a-z/!?][^<>]*>?|&#?\w+;", re.DOTALL | re.IGNORECASE)
# Settings that accept any value.
_ALWAYS_VALID = frozenset(
    {
        *("model", "source_language_code", "target_language_code", "pass_through_unserved", "allow_pivot"),
        *("return_scores", "return_provenance", "return_quality", "return_alternatives"),
    }
)
_FORMATS: Mapping[int, ContentFormat] = MappingProxyType(
    {
        pb.CONTENT_FORMAT_UNSPECIFIED: ContentFormat.TEXT,
        pb.CONTENT_FORMAT_TEXT: ContentFormat.TEXT,
        pb.CONTENT_FORMAT_HTML: ContentFormat.HTML,
        pb.CONTENT_FORMAT_XML: ContentFormat.XML,
    }
)
_FAMILIES: Mapping[int, PlaceholderFamily] = MappingProxyType(
    {pb.PlaceholderFamily.Value(f"PLACEHOLDER_FAMILY_{family.name}"): family for family in PlaceholderFamily}
)

MAX_FAMILIES = 64
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
"""Settings that become options of the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRequest:
    """The texts and settings of a request, checked as far as no model needs to be known."""

    settings: pb.TranslationSettings
    present: frozenset[str]
    """Names of the settings that the caller set."""
    texts: tuple[str, ...]
    samples: Sequence[str]
    """The texts without tags, for detection of their language."""
    term_fields: tuple[str, ...]
    """Settings that name terms."""
    entries: TermIndex | None
    """Entries of the request itself; None if there are none."""
    faults: tuple[FieldViolation, ...]
    """All faults that were found."""


def check_unary(request: pb.TranslateTextRequest, *, max_characters: int) -> CheckedRequest:
    """Check a request with many texts, as `check_settings` does."""
    if violations := _contents_violations(request):
        return check_settings(request.settings, (), max_characters=max_characters, violations=violations)
    return check_settings(request.settings, tuple(request.contents), max_characters=max_characters)


def check_stream(request: pb.StreamTranslateTextRequest, *, max_characters: int) -> CheckedRequest:
    """Check one message of a stream, as `check_settings` does."""
    faults = []
    if (id_bytes := len(request.id.encode())) > MAX_ID_BYTES:
        description = f"must have at most {MAX_ID_BYTES} bytes, has {id_bytes}"
        faults.append(FieldViolation(field="id", description=description))
    return check_settings(request.settings, (request.content,), max_characters=max_characters, violations=faults)


def check_settings(
    settings: pb.TranslationSettings,
    texts: tuple[str, ...],
    *,
    max_characters: int,
    violations: Iterable[FieldViolation] = (),
) -> CheckedRequest:
    """Check texts and the options of their translation; `violations` are faults of the request's other fields.

    All work that grows with a request is done here, after the limits were checked; run it in a thread if it is large.

    Raises:
        InvalidInputError: Texts or names have too many characters; the error names all faults.
    """
    present = frozenset([field.name for field, _ in settings.ListFields()])
    faults = list(violations)
    if not present <= _ALWAYS_VALID:
        faults += settings_violations(settings)
    too_long: list[FieldViolation] = []
    if settings.ByteSize() > MAX_NAME_CHARACTERS:
        too_long += _name_violations(settings)
    if max(map(len, texts), default=0) > max_characters:
        too_long += _length_violations(texts, max_characters)
    if too_long:
        raise InvalidInputError((*faults, *too_long))
    return CheckedRequest(
        settings=settings,
        present=present,
        texts=texts,
        samples=texts if settings.source_language_code else _samples(settings, texts),
        term_fields=() if present.isdisjoint(TERM_FIELDS) else term_fields(settings),
        entries=term_index(settings) if settings.glossary_entries and not faults else None,
        faults=tuple(faults),
    )


def _samples(settings: pb.TranslationSettings, texts: Sequence[str]) -> Sequence[str]:
    """Return the text between tags and placeholders, which tells the language."""
    if settings.content_format in (pb.CONTENT_FORMAT_HTML, pb.CONTENT_FORMAT_XML):
        texts = [_TAGS.sub(" ", text) for text in texts]
    if settings.placeholders:
        families = frozenset(_FAMILIES[number] for number in settings.placeholders if number in _FAMILIES)
        texts = [without_placeholders(text, families) for text in texts]
    return texts


async def completed(
    checked: CheckedRequest, resolve: Resolve, glossaries: GlossaryFolder, *, offload: Offload | None = None
) -> Call:
    """Find the model of a request and fill in its defaults; `offload` runs the detection of languages.

    Raises:
        InvalidInputError: The request has faults; the error names all of them.
        ModelNotFoundError: No served model fits the request, which has no fault otherwise.
    """
    settings, present, faults = checked.settings, checked.present, list(checked.faults)
    route = await _resolved(checked, resolve, offload)
    options, terms = route.model.default_options, NO_TERMS
    if not present.isdisjoint(OPTION_FIELDS):
        options = with_defaults(settings, route.model)
        faults += mutual_violations(options, route.model)
    fields, first = checked.term_fields, None
    if route.first:
        first = first_options(settings, options, route.first.model)
        faults += (fault for fault in mutual_violations(first, route.first.model) if fault not in faults)
    if fields:
        faults += search_violations(fields, options)
    if faults:
        raise InvalidInputError(faults)
    if fields:
        terms = read_terms(settings, fields, checked.entries, route, glossaries)
    call = Call(
        texts=checked.texts,
        model=route.model,
        source_language=route.source_language,
        target_language=route.target_language,
        options=options,
        return_scores=settings.return_scores,
        return_provenance=settings.return_provenance,
        readings=route.readings,
        terms=terms,
        content_format=_FORMATS[settings.content_format],
        placeholders=frozenset(map(_FAMILIES.__getitem__, settings.placeholders)),
    )
    return call if first is None or route.first is None else _with_first(call, route.first, first)


def first_options(settings: pb.TranslationSettings, options: DecodingOptions, model: ServedModel) -> DecodingOptions:
    """Return the options of the first of two models: its defaults, and what is of the whole translation."""
    asked = settings.options
    return dataclasses.replace(
        model.default_options,
        num_hypotheses=1,
        beam_size=asked.beam_size if asked.HasField("beam_size") else model.default_options.beam_size,
        refuse_long_sentences=options.refuse_long_sentences,
        token_details=options.token_details,
        quality=options.quality,
    )


def _with_first(call: Call, route: Route, options: DecodingOptions) -> Call:
    """Return a call with that of the first of its two models."""
    first = dataclasses.replace(
        call,
        model=route.model,
        source_language=route.source_language,
        target_language=route.target_language,
        options=options,
    )
    return dataclasses.replace(call, first=first)


async def _resolved(checked: CheckedRequest, resolve: Resolve, offload: Offload | None) -> Route:
    """Find the model of a request; where there is none, faults of the settings are named too, or instead."""
    settings, faults = checked.settings, checked.faults
    try:
        return await resolve(
            model=settings.model,
            source_language=settings.source_language_code,
            target_language=settings.target_language_code,
            texts=checked.samples,
            pass_through_unserved=settings.pass_through_unserved,
            allow_pivot=settings.allow_pivot if settings.HasField("allow_pivot") else None,
            offload=offload,
        )
    except InvalidInputError as error:
        if not faults:
            raise
        raise InvalidInputError((*faults, *error.violations), count=len(faults) + error.count) from None
    except ModelNotFoundError:
        if not faults:
            raise
        raise InvalidInputError(faults) from None


def _name_violations(settings: pb.TranslationSettings) -> Iterator[FieldViolation]:
    """Find names that are longer than any can be."""
    for field, name in (
        ("model", settings.model),
        ("source_language_code", settings.source_language_code),
        ("target_language_code", settings.target_language_code),
        ("glossary", settings.glossary),
    ):
        if len(name) > MAX_NAME_CHARACTERS:
            description = f"must have at most {MAX_NAME_CHARACTERS} characters, has {len(name)}"
            yield FieldViolation(field=field, description=description)


def _length_violations(texts: Sequence[str], limit: int) -> Iterator[FieldViolation]:
    """Find texts with too many characters."""
    for index, text in enumerate(texts):
        if len(text) > limit:
            description = f"must have at most {limit} characters, has {len(text)}"
            yield FieldViolation(field=f"contents[{index}]", description=description)


def settings_violations(settings: pb.TranslationSettings) -> Iterator[FieldViolation]:
    """Find the values that no model takes."""
    if settings.HasField("options"):
        yield from range_violations(settings.options)
    if settings.glossary_entries or settings.protected_patterns:
        yield from term_violations(settings)
    if settings.content_format:
        yield from _format_violations(settings)
    if settings.placeholders:
        yield from _placeholder_violations(settings)


def read_detection_request(request: pb.DetectLanguageRequest) -> tuple[str, ...]:
    """Check a request for the languages of texts; InvalidInputError: there are none, or too many."""
    if violations := _contents_violations(request):
        raise InvalidInputError(violations)
    return tuple(request.contents)


def for_single_text(error: InvalidInputError, name: str = "content") -> InvalidInputError:
    """Rename the field of an engine's error about a single text."""
    return error.with_violations(
        FieldViolation(field=_CONTENTS.sub(name, fault.field), description=_CONTENTS.sub(name, fault.description))
        for fault in error.violations
    )


def as_sent(error: InvalidInputError) -> InvalidInputError:
    """Name the fields of an engine's error as in requests: "settings.model", but "contents[3]" unchanged."""
    return error.with_violations(
        fault if _BESIDE_SETTINGS.match(fault.field) else dataclasses.replace(fault, field=f"settings.{fault.field}")
        for fault in error.violations
    )


def _contents_violations(request: pb.TranslateTextRequest | pb.DetectLanguageRequest) -> list[FieldViolation]:
    if 1 <= len(request.contents) <= MAX_CONTENTS:
        return []
    description = f"must have 1 to {MAX_CONTENTS} elements, has {len(request.contents)}"
    return [FieldViolation(field="contents", description=description)]


def _format_violations(settings: pb.TranslationSettings) -> Iterator[FieldViolation]:
    """Find faults of the format of contents, and of fields that it excludes."""
    number = settings.content_format
    if number not in _FORMATS:
        yield FieldViolation(field="content_format", description=f"must be TEXT, HTML or XML, is {number}")
    elif settings.token_details and _FORMATS[number] is not ContentFormat.TEXT:
        description = "must be false with content_format HTML or XML: tokens are of text without tags"
        yield FieldViolation(field="token_details", description=description)


def _placeholder_violations(settings: pb.TranslationSettings) -> Iterator[FieldViolation]:
    """Find families that are unknown or repeated, and what placeholders exclude."""
    if len(settings.placeholders) > MAX_FAMILIES:
        description = f"must have at most {MAX_FAMILIES} elements, has {len(settings.placeholders)}"
        yield FieldViolation(field="placeholders", description=description)
        return
    for index, number in enumerate(settings.placeholders):
        if number not in _FAMILIES:
            yield FieldViolation(field=f"placeholders[{index}]", description=f"is no known family: {number}")
        elif number in settings.placeholders[:index]:
            yield FieldViolation(field=f"placeholders[{index}]", description="must be given once")
    if settings.token_details:
        description = "must be false with placeholders: tokens are of text without them"
        yield FieldViolation(field="token_details", description=description)
    if settings.options.target_prefix:
        description = "cannot be together with placeholders"
        yield FieldViolation(field="options.target_prefix", description=description)


def range_violations(options: pb.DecodingOptions) -> Iterable[FieldViolation]:
    """Find the values outside of their ranges."""
    yield from _out_of_range(_RANGES, options, path="options")
    if options.HasField("sampling"):
        yield from _out_of_range(_SAMPLING_RANGES, options.sampling, path="options.sampling")
    if len(options.target_prefix) > MAX_PREFIX_CHARACTERS:
        yield _size_violation("target_prefix", f"at most {MAX_PREFIX_CHARACTERS} characters", options.target_prefix)
    if len(options.suppressed_texts) > MAX_SUPPRESSED_TEXTS:
        yield _size_violation("suppressed_texts", f"at most {MAX_SUPPRESSED_TEXTS} elements", options.suppressed_texts)
        return
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


def _out_of_range(ranges: Mapping[str, _Range], options: Any, *, path: str) -> Iterable[FieldViolation]:
    values = _set_fields(options)
    for name in filter(values.__contains__, ranges):
        limits, value = ranges[name], values[name]
        # NaN compares false with both bounds.
        if not limits.minimum <= value <= limits.maximum:
            yield _value_violation(name, str(limits), value, path=path)


def _value_violation(name: str, limits: str, value: float, *, path: str = "options") -> FieldViolation:
    return FieldViolation(field=f"{path}.{name}", description=f"must be {limits}, is {value:g}")


def _size_violation(name: str, limits: str, value: Sized) -> FieldViolation:
    return FieldViolation(field=f"options.{name}", description=f"must have {limits}, has {len(value)}")
