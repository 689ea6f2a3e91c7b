"""Terms of requests: entries, stored glossaries and protected patterns, checked and read; and what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from xuanzang.server.engine.errors import FieldViolation, InvalidInputError
from xuanzang.server.engine.glossaries import MAX_TARGETS, GlossaryFolder, entry_faults
from xuanzang.server.engine.types import DecodingOptions, Route
from xuanzang.text.language_codes import primary
from xuanzang.text.terminology.terms import NO_TERMS, GlossaryEntry, TermIndex, Terms
from xuanzang.text.types import GlossaryMatch, GlossaryOutcome, ProtectedPattern
from xuanzang.translation.v1 import translation_pb2 as pb

MAX_ENTRIES = 1000
MAX_PATTERNS = 64
MIN_BEAM_SIZE = 2
"""A beam of 1 cannot keep hypotheses with and without a term."""

TERM_FIELDS = ("glossary_entries", "glossary", "protected_patterns")
"""Settings that want something kept."""

_PATTERN_NUMBERS: Mapping[ProtectedPattern, pb.ProtectedPattern.ValueType] = MappingProxyType(
    {pattern: pb.ProtectedPattern.Value(f"PROTECTED_PATTERN_{pattern.name}") for pattern in ProtectedPattern}
)
_PATTERNS: Mapping[int, ProtectedPattern] = MappingProxyType(
    {number: pattern for pattern, number in _PATTERN_NUMBERS.items()}
)
_OUTCOMES: Mapping[GlossaryOutcome, pb.GlossaryOutcome.ValueType] = MappingProxyType(
    {outcome: pb.GlossaryOutcome.Value(f"GLOSSARY_OUTCOME_{outcome.name}") for outcome in GlossaryOutcome}
)


def term_violations(settings: pb.TranslationSettings) -> Iterator[FieldViolation]:
    """Find entries and patterns that are over a limit or unknown."""
    if len(settings.glossary_entries) > MAX_ENTRIES:
        description = f"must have at most {MAX_ENTRIES} elements, has {len(settings.glossary_entries)}"
        yield FieldViolation(field="glossary_entries", description=description)
        return
    for number, entry in enumerate(settings.glossary_entries):
        for name, fault in entry_faults(entry_of(entry)):
            yield FieldViolation(field=f"glossary_entries[{number}].{name}", description=fault)
    if len(settings.protected_patterns) > MAX_PATTERNS:
        description = f"must have at most {MAX_PATTERNS} elements, has {len(settings.protected_patterns)}"
        yield FieldViolation(field="protected_patterns", description=description)
        return
    for number, pattern in enumerate(settings.protected_patterns):
        if pattern not in _PATTERNS:
            yield FieldViolation(field=f"protected_patterns[{number}]", description=f"is no known pattern: {pattern}")


def term_fields(settings: pb.TranslationSettings) -> tuple[str, ...]:
    """Return the fields that want something kept."""
    return tuple([name for name in TERM_FIELDS if getattr(settings, name)])


def search_violations(term_fields: Sequence[str], options: DecodingOptions) -> Iterable[FieldViolation]:
    """Find options that are incompatible with the terms of a request."""
    if not term_fields:
        return []
    fields = ", ".join(term_fields)
    if options.sampling:
        return [FieldViolation(field="options.sampling", description=f"cannot be together with {fields}")]
    if options.beam_size < MIN_BEAM_SIZE:
        description = f"must be at least {MIN_BEAM_SIZE} together with {fields}, is {options.beam_size}"
        return [FieldViolation(field="options.beam_size", description=description)]
    return []


def term_index(settings: pb.TranslationSettings) -> TermIndex:
    """Return the entries of a request by their sources."""
    return TermIndex(map(entry_of, settings.glossary_entries))


def read_terms(
    settings: pb.TranslationSettings,
    fields: tuple[str, ...],
    entries: TermIndex | None,
    route: Route,
    glossaries: GlossaryFolder,
) -> Terms:
    """Read what fields of settings want kept; InvalidInputError: no such glossary, or one for other languages."""
    if not fields:
        return NO_TERMS
    indices = [] if entries is None else [entries]
    if settings.glossary:
        glossary = glossaries.find(settings.glossary)
        pair = (glossary.source_language, glossary.target_language)
        if not _serves(route, *pair):
            description = f"is from {pair[0]} to {pair[1]}, which is not what the model translates"
            raise InvalidInputError([FieldViolation(field="glossary", description=description)])
        indices.append(glossary.index)
    patterns = tuple(_PATTERNS[pattern] for pattern in settings.protected_patterns if pattern in _PATTERNS)
    return Terms(indices=tuple(indices), patterns=patterns, fields=fields)


def _serves(route: Route, source: str, target: str) -> bool:
    """Return whether a model translates between two languages, regions and scripts left out."""
    sources = {primary(code) for code in route.origin.model.source_languages}
    return primary(source) in sources and primary(target) == primary(route.target_language)


def entry_of(entry: pb.GlossaryEntry) -> GlossaryEntry:
    """Read an entry, without the space around its texts; of too many targets some, which are still too many."""
    return GlossaryEntry(
        source=entry.source.strip(), targets=tuple(target.strip() for target in entry.targets[: MAX_TARGETS + 1])
    )


def glossary_match(match: GlossaryMatch) -> pb.GlossaryMatch:
    """Return the message for a term and what became of it."""
    return pb.GlossaryMatch(
        source=match.source,
        source_start=match.source_start,
        source_end=match.source_end,
        target=match.target,
        outcome=_OUTCOMES[match.outcome],
        pattern=_PATTERN_NUMBERS[match.pattern] if match.pattern else pb.PROTECTED_PATTERN_UNSPECIFIED,
    )
