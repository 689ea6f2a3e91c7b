"""Terms in a translation: whether they are there, and how they are written.

A translation is kept as it is asked for, but for what a reader expects of any word: a lower-case one may have a capital
at the beginning of the sentence, and an English noun its plural. A model that copies a name from its source may still
write "the Wandering Earth" for "The Wandering Earth", or "泽菲2 号" for "泽菲2号". What differs so little is no reason
for another search: it is spelled as asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from xuanzang.server.engine.terminology.carriers import WRITTEN_QUOTES
from xuanzang.server.engine.terminology.source_terms import with_terms
from xuanzang.server.engine.terminology.terms import FoundTerm
from xuanzang.server.engine.text.offsets import Span
from xuanzang.server.engine.text.words import find_whole, is_boundary
from xuanzang.server.engine.types import GlossaryMatch, GlossaryOutcome

# English nouns whose plural has one more letter, or one more syllable.
_NOUN = re.compile(r"(?:.*[\s-])?[a-z]{2,}[a-rt-z]", re.DOTALL)
_SYLLABLE = re.compile(r".*(?:x|z|ch|sh)", re.DOTALL)
_CONSONANT_Y = re.compile(r".*[^aeiou]y", re.DOTALL)
_OPENING_MARKS = " \"'“‘(["
_CLOSING_MARKS = " \"'”’)]"
_ENDS = (".", "!", "?")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTerms:
    """The terms that the translations of one sentence are to hold."""

    found: tuple[tuple[FoundTerm, GlossaryOutcome | None], ...]
    """Each term, with the reason why it is not kept; spans are those in the whole text."""
    is_english: bool
    """True if the translations are English."""
    drops_quotes: bool = False
    """True if quotes in a translation are those of names in the source that the model reads, not the caller's."""

    def matches(self, text: str) -> tuple[GlossaryMatch, ...]:
        """Say what became of each term in a translation."""
        places = _Places(text, is_english=self.is_english)
        kept = {term.start: places.take(term.targets) for term, _ in self._longest_first()}
        return tuple(_match(term, *kept[term.start], reason) for term, reason in self.found)

    def missed(self, text: str) -> int:
        """Return how many terms a translation lacks that a search can require."""
        return sum(match.outcome is GlossaryOutcome.NOT_REACHED for match in self.matches(text))

    def spelled(self, text: str) -> str:
        """Return a translation with terms spelled as asked that differ in case, white space and quotes."""
        return _capitalised(with_terms(text, self._alike(text)).text, self.found)

    def spelled_tokens(self, tokens: Sequence[str]) -> list[str]:
        """Return the texts of the tokens of a translation, as `spelled`."""
        written = with_terms("".join(tokens), self._alike("".join(tokens)))
        text = _capitalised(written.text, self.found)
        ends = [written.after(end) for end in accumulate(map(len, tokens))]
        return [text[start:end] for start, end in pairwise([0, *ends])]

    def _alike(self, text: str) -> list[tuple[Span, str]]:
        """Find what stands for terms and is spelled otherwise, and quotes to drop, in the order of the text."""
        places = _Places(text, is_english=self.is_english)
        missing = [
            term for term, reason in self._longest_first() if places.take(term.targets)[1] < 0 and reason is None
        ]
        found = (places.take_alike(term.targets) for term in missing if term.pattern is None)
        quotes = WRITTEN_QUOTES.finditer(text) if self.drops_quotes else ()
        return sorted([*(each for each in found if each), *((quote.span(), "") for quote in quotes)])

    def _longest_first(self) -> list[tuple[FoundTerm, GlossaryOutcome | None]]:
        # Long translations first: short ones may stand within them, and must have places of their own.
        return sorted(self.found, key=lambda found: -max(map(len, found[0].targets)))


class _Places:
    """Places of a translation, each of which keeps one term."""

    def __init__(self, text: str, *, is_english: bool) -> None:
        self._text, self._is_english = text, is_english
        self._taken: list[Span] = []

    def take(self, targets: Sequence[str]) -> tuple[str, int]:
        """Take the first place of one of some texts where no other was taken; return both, or "" and -1."""
        for target in targets:
            for form in _forms(target, is_english=self._is_english):
                place = self._free(form)
                if place >= 0:
                    return self._text[place : place + len(form)], self._take(place, place + len(form))
            begun = len(self._text) - len(self._text.lstrip(_OPENING_MARKS))
            capital = target[:1].upper() + target[1:]
            if target.islower() and self._free(capital, begun) == begun:
                return capital, self._take(begun, begun + len(target))
        return "", -1

    def take_alike(self, targets: Sequence[str]) -> tuple[Span, str] | None:
        """Take the place of a text that differs from one of some in case and white space; return it, and the text."""
        for target in targets:
            letters = r"\s*".join(map(re.escape, "".join(target.split())))
            for match in re.finditer(letters, self._text, re.IGNORECASE):
                start, end = match.span()
                is_whole = is_boundary(self._text, start) and is_boundary(self._text, end)
                if is_whole and not self._end_of_taken(start, end):
                    self._take(start, end)
                    return (start, end), target
        return None

    def _free(self, form: str, start: int = 0) -> int:
        """Return where a text stands as whole words where no other was taken; -1 if nowhere."""
        place = find_whole(self._text, form, start)
        while place >= 0 and (end := self._end_of_taken(place, place + len(form))):
            place = find_whole(self._text, form, end)
        return place

    def _take(self, start: int, end: int) -> int:
        self._taken.append((start, end))
        return start

    def _end_of_taken(self, start: int, end: int) -> int:
        """Return the greatest end of what was taken of some characters; 0 if they are free."""
        return max((last for first, last in self._taken if first < end and start < last), default=0)


def _capitalised(text: str, found: Sequence[tuple[FoundTerm, GlossaryOutcome | None]]) -> str:
    """Return a sentence with a capital if a lower-case term begins it: the model copies a term as it is."""
    begun = len(text) - len(text.lstrip(_OPENING_MARKS))
    is_sentence = text.rstrip(_CLOSING_MARKS)[-1:] in _ENDS
    if not is_sentence or not any(_begins(text, begun, target) for term, _ in found for target in term.targets):
        return text
    return text[:begun] + text[begun : begun + 1].upper() + text[begun + 1 :]


def _begins(text: str, begun: int, target: str) -> bool:
    return target.islower() and find_whole(text, target, begun) == begun


def _forms(target: str, *, is_english: bool) -> Iterator[str]:
    """Yield the ways to write a translation anywhere in a sentence: as asked, and the plural of an English noun."""
    yield target
    if is_english and _NOUN.fullmatch(target):
        if _CONSONANT_Y.fullmatch(target):
            yield f"{target[:-1]}ies"
        else:
            yield f"{target}{'es' if _SYLLABLE.fullmatch(target) else 's'}"


def _match(term: FoundTerm, target: str, place: int, reason: GlossaryOutcome | None) -> GlossaryMatch:
    missed = reason or GlossaryOutcome.NOT_REACHED
    return GlossaryMatch(
        source=term.source,
        source_start=term.start,
        source_end=term.end,
        target=target,
        outcome=GlossaryOutcome.HONOURED if target else missed,
        pattern=term.pattern,
        target_start=place,
    )
