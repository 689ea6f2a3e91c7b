"""Terms and protected texts in a source text: the longest at each place, none over another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from xuanzang.text.catalogue import find_protected
from xuanzang.text.offsets import Span, before_nfkc, nfkc
from xuanzang.text.types import ProtectedPattern
from xuanzang.text.words import is_boundary

# Marks that may end a sentence, after normalisation.
_MARKS = frozenset("。.!?;")


@dataclass(frozen=True, slots=True, kw_only=True)
class GlossaryEntry:
    """A term and its translations."""

    source: str
    targets: tuple[str, ...]
    """Acceptable translations, at least one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTerm:
    """A term or protected text in a text."""

    start: int
    """Its first character."""
    end: int
    source: str
    targets: tuple[str, ...]
    """Alternative texts; a translation must hold one."""
    pattern: ProtectedPattern | None = None
    """Pattern that found it; None for an entry."""
    is_ordered: bool = False
    """True if a translation must hold it after the ordered terms before it."""


class TermIndex:
    """Entries by their source. Immutable, so threads may share it."""

    def __init__(self, entries: Iterable[GlossaryEntry]) -> None:
        """Index entries; of several with one source the first counts."""
        self._entries: dict[str, GlossaryEntry] = {}
        lengths: dict[str, set[int]] = {}
        for entry in entries:
            source = normalized(entry.source)
            self._entries.setdefault(source, entry)
            lengths.setdefault(source[0], set()).add(len(source))
        self.has_marks = any(not _MARKS.isdisjoint(source) for source in self._entries)
        """True if a term has a mark that may end a sentence."""
        # Longest first. A text is compared with all sources of one length and first character at once.
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}

    def find(self, text: str) -> Iterator[tuple[int, int, GlossaryEntry]]:
        """Find the longest entry at each place of a normalised text; yield its span, too."""
        for start, first in enumerate(text):
            for length in self._lengths.get(first, ()):
                entry = self._entries.get(text[start : start + length])
                if entry and is_boundary(text, start) and is_boundary(text, start + length):
                    yield start, start + length, entry
                    break


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Terms and texts that a request wants kept."""

    indices: tuple[TermIndex, ...] = ()
    """Entries; those of earlier indices come first."""
    patterns: tuple[ProtectedPattern, ...] = ()
    fields: tuple[str, ...] = ()

    def find(self, text: str, offset: int = 0) -> list[FoundTerm]:
        """Find terms and protected texts, in the order of the text; where two overlap, the longer one.

        The offset is added to the spans found.
        """
        kept = _longest([*_entries_in(text, self.indices), *_protected(text, self.patterns)])
        return [replace(term, start=term.start + offset, end=term.end + offset) for term in kept]

    def with_marks(self, text: str) -> list[Span]:
        """Find the entries that have a mark that may end a sentence, such as "Yahoo!"; no sentence ends within them."""
        if not self.indices:
            return []
        indices = [index for index in self.indices if index.has_marks]
        found = _longest(list(_entries_in(text, indices))) if indices else []
        return [(term.start, term.end) for term in found if not _MARKS.isdisjoint(normalized(term.source))]


NO_TERMS = Terms()


def normalized(text: str) -> str:
    """Return a text in the form used to compare terms."""
    return nfkc(text)


def _entries_in(text: str, indices: Sequence[TermIndex]) -> Iterator[FoundTerm]:
    plain = normalized(text)
    entries = [found for index in indices for found in index.find(plain)]
    spans = [(start, end) for start, end, _ in entries]
    originals = spans if plain == text else before_nfkc(text, spans)
    for (start, end), (first, last), (*_, entry) in zip(originals, spans, entries, strict=True):
        source = text[start:end]
        # A term may be a part of one character, such as 株 of ㈱.
        if normalized(source) == plain[first:last]:
            yield FoundTerm(start=start, end=end, source=source, targets=entry.targets)


def _protected(text: str, patterns: Sequence[ProtectedPattern]) -> Iterator[FoundTerm]:
    for pattern in patterns:
        for span in find_protected(text, pattern):
            source = text[span.start : span.end]
            targets = tuple(dict.fromkeys((source, normalized(source))))
            yield FoundTerm(start=span.start, end=span.end, source=source, targets=targets, pattern=pattern)


def _longest(found: Sequence[FoundTerm]) -> list[FoundTerm]:
    taken: list[FoundTerm] = []
    covered: set[int] = set()
    # Of equally long ones the first: entries before patterns, those of the request before those of a glossary.
    for term in sorted(found, key=lambda term: term.start - term.end):
        if covered.isdisjoint(range(term.start, term.end)):
            covered.update(range(term.start, term.end))
            taken.append(term)
    return sorted(taken, key=lambda term: term.start)
