"""Entries of glossaries as Google has them: pairs of a term and one translation, with an id."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from google.cloud.translate_v3.types import common

from xuanzang.server.engine.errors import FieldViolation, GlossaryExistsError, GlossaryNotFoundError, InvalidInputError
from xuanzang.server.engine.terminology.terms import GlossaryEntry
from xuanzang.translation.v1 import translation_pb2 as pb

_ID_CHARACTERS = 24


class Pair(NamedTuple):
    """A term and one of its translations."""

    source: str
    """Term."""
    target: str
    """Translation."""

    @property
    def id(self) -> str:
        """Id of the pair in its glossary."""
        return hashlib.sha256(f"{self.source}\t{self.target}".encode()).hexdigest()[:_ID_CHARACTERS]


def paired(entries: Iterable[GlossaryEntry | pb.GlossaryEntry]) -> list[Pair]:
    """Return all pairs of entries, in their order.

    Args:
        entries: Terms, each with one or more translations.
    """
    return [Pair(entry.source, target) for entry in entries for target in entry.targets]


def found(pairs: Iterable[Pair], wanted: str) -> Pair:
    """Return the pair that has an id.

    Args:
        pairs: Pairs of a glossary.
        wanted: Id.

    Raises:
        GlossaryNotFoundError: There is none.
    """
    for pair in pairs:
        if pair.id == wanted:
            return pair
    raise GlossaryNotFoundError("the glossary has no such entry; ListGlossaryEntries names them")


def added(entries: Sequence[GlossaryEntry], pair: Pair) -> Sequence[GlossaryEntry]:
    """Return entries with one more pair: a translation more of a term that is there, or a new term.

    Args:
        entries: Entries of a glossary.
        pair: Pair to add.

    Raises:
        GlossaryExistsError: It is there already.
    """
    if pair in paired(entries):
        raise GlossaryExistsError("the glossary has this entry already")
    if all(entry.source != pair.source for entry in entries):
        return [*entries, GlossaryEntry(source=pair.source, targets=(pair.target,))]
    return [_with_target(entry, pair) for entry in entries]


def removed(entries: Sequence[GlossaryEntry], wanted: str) -> Sequence[GlossaryEntry]:
    """Return entries without the pair that has an id.

    Args:
        entries: Entries of a glossary.
        wanted: Id.

    Raises:
        GlossaryNotFoundError: There is none.
    """
    pair = found(paired(entries), wanted)
    left = [_without_target(entry, pair) for entry in entries]
    return [entry for entry in left if entry.targets]


def read_pair(entry: Any, glossary: pb.Glossary) -> Pair:
    """Read an entry of Google's.

    Args:
        entry: google.cloud.translation.v3.GlossaryEntry.
        glossary: Glossary that it is for.

    Raises:
        InvalidInputError: It is no pair of the glossary's languages.
    """
    if entry.HasField("terms_set") or not entry.HasField("terms_pair"):
        description = "must be set, and terms_set must not: a glossary has one pair of languages"
        raise InvalidInputError([FieldViolation(field="glossary_entry.terms_pair", description=description)])
    pair = entry.terms_pair
    languages = (
        ("source_term", pair.source_term.language_code, glossary.source_language_code),
        ("target_term", pair.target_term.language_code, glossary.target_language_code),
    )
    if faults := [
        FieldViolation(field=f"glossary_entry.terms_pair.{name}.language_code", description=f"must be {held} or unset")
        for name, given, held in languages
        if given not in ("", held)
    ]:
        raise InvalidInputError(faults)
    return Pair(pair.source_term.text.strip(), pair.target_term.text.strip())


def written(resource: str, glossary: pb.Glossary, pair: Pair) -> Any:
    """Write an entry.

    Args:
        resource: Google's name of the glossary.
        glossary: The glossary.
        pair: The entry.

    Returns:
        google.cloud.translation.v3.GlossaryEntry.
    """
    return common.GlossaryEntry.pb()(
        name=f"{resource}/glossaryEntries/{pair.id}",
        terms_pair={
            "source_term": {"language_code": glossary.source_language_code, "text": pair.source},
            "target_term": {"language_code": glossary.target_language_code, "text": pair.target},
        },
    )


def _with_target(entry: GlossaryEntry, pair: Pair) -> GlossaryEntry:
    return replace(entry, targets=(*entry.targets, pair.target)) if entry.source == pair.source else entry


def _without_target(entry: GlossaryEntry, pair: Pair) -> GlossaryEntry:
    if entry.source != pair.source:
        return entry
    return replace(entry, targets=tuple(target for target in entry.targets if target != pair.target))
