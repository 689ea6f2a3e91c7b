"""Terms in a translation: whether they are there, and how they are written.

A translation is kept as requested, but with the changes that any word may have: a lower-case one may have a capital
at the beginning of the sentence, and an English noun its plural. A model that copies a name from its source may still
write "the Wandering Earth" for "The Wandering Earth", or "泽菲2 号" for "泽菲2号". What differs so little is no reason
for another search: it is spelled as asked. "It" is no way to write "IT", nor is "us" one to write "US".
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from xuanzang.text.offsets import Span
from xuanzang.text.terminology.carriers import WRITTEN_QUOTES
from xuanzang.text.terminology.source_terms import with_terms
from xuanzang.text.terminology.terms import FoundTerm
from xuanzang.text.types import GlossaryMatch, GlossaryOutcome
from xuanzang.text.words import find_whole, is_boundary, is_never_spaced

# English nouns whose plural has one more letter, or one more syllable.
_NOUN = re.compile(r"(?:.*[\s-])?[a-z]{2,}[a-rt-z]", re.DOTALL)
_SYLLABLE = re.compile(r".*(?:x|z|ch|sh)", re.DOTALL)
_CONSONANT_Y = re.compile(r".*[^aeiou]y", re.DOTALL)
_OPENING_MARKS = " \"'“‘(["
_CLOSING_MARKS = " \"'”’)]"
_ENDS = (".", "!", "?")
# A quotation mark before a term that stands in quotes, and one after it.
_BEFORE = re.compile(r"([\"“”「])(?:the |an? )?$", re.IGNORECASE)
_SEVERAL = 2
_LONGEST_BEFORE = len('"the ')
_AFTER = re.compile(r"[.,!?;:。，！？；：]?([\"“”」])")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTerms:
    """The terms that the translations of one sentence are to hold."""

    found: tuple[tuple[FoundTerm, GlossaryOutcome | None], ...]
    """Each term, with the reason why it is not kept; spans are those in the whole text."""
    is_english: bool
    """True if the translations are English."""
    respells: bool = True
    """True if terms are spelled as asked; a search that requires them from its start writes them so, and emits them."""
    begins_sentence: bool = True
    """False if the translations go on with a sentence that was cut."""
    drops_quotes: bool = False
    """True if the source that the model reads has names in quotes that are not the caller's."""

    def matches(self, text: str) -> tuple[GlossaryMatch, ...]:
        """Say what became of each term in a translation."""
        places = _Places(text, is_english=self.is_english)
        kept = {term.start: places.take(term) for term, _ in self._longest_first()}
        return tuple(match_of(term, *kept[term.start], reason) for term, reason in self.found)

    def missed(self, text: str) -> int:
        """Return how many terms a translation lacks that a search can require."""
        return sum(match.outcome is GlossaryOutcome.NOT_REACHED for match in self.matches(text))

    @property
    def has_order(self) -> bool:
        """True if several terms must keep their order."""
        return sum(term.is_ordered for term, _ in self.found) >= _SEVERAL

    def is_in_order(self, text: str) -> bool:
        """Return whether the ordered terms of a translation stand in the order of the source."""
        if not self.has_order:
            return True
        matches = zip(self.found, self.matches(text), strict=True)
        places = [match.target_start for (term, _), match in matches if term.is_ordered and match.target]
        return places == sorted(places)

    def stays(self, beginning: str) -> bool:
        """Return whether the beginning of a translation that holds all terms is spelled as it will be at the end."""
        if self.drops_quotes and WRITTEN_QUOTES.search(beginning):
            return False
        return self.spelled(f"{beginning}.") == f"{beginning}."

    def spelled(self, text: str) -> str:
        """Return a translation with terms spelled as asked that differ in case and white space, and nothing surplus."""
        return self._capitalised(with_terms(text, self._changes(text)).text) if self.respells else text

    def spelled_tokens(self, tokens: Sequence[str]) -> list[str]:
        """Return the texts of the tokens of a translation, as `spelled`."""
        if not self.respells:
            return list(tokens)
        written = with_terms("".join(tokens), self._changes("".join(tokens)))
        text = self._capitalised(written.text)
        ends = [written.after(end) for end in accumulate(map(len, tokens))]
        return [text[start:end] for start, end in pairwise([0, *ends])]

    def _changes(self, text: str) -> list[tuple[Span, str]]:
        """Find terms in other spellings, and characters to drop, in the order of the text."""
        places = _Places(text, is_english=self.is_english)
        missing = [term for term, reason in self._longest_first() if places.take(term)[1] < 0 and reason is None]
        found = [place for term in missing if term.pattern is None and (place := places.take_alike(term))]
        return sorted([*found, *((span, "") for span in places.surplus(has_quotes=self.drops_quotes))])

    def _longest_first(self) -> list[tuple[FoundTerm, GlossaryOutcome | None]]:
        # Long translations first: short ones may stand within them, and must have places of their own.
        return sorted(self.found, key=lambda found: -max(map(len, found[0].targets)))

    def _capitalised(self, text: str) -> str:
        """Return a sentence with a capital if a lower-case term begins it: the model copies a term unchanged."""
        begun = len(text) - len(text.lstrip(_OPENING_MARKS))
        first, capital = text[begun : begun + 1], _capital(text[begun:])[:1]
        is_sentence = self.begins_sentence and text.rstrip(_CLOSING_MARKS)[-1:] in _ENDS
        if not is_sentence or first == capital:
            return text
        targets = [target for term, _ in self.found for target in term.targets if _inflects(term, target)]
        if not any(target.islower() and find_whole(text, target, begun) == begun for target in targets):
            return text
        return text[:begun] + capital + text[begun + 1 :]


class _Places:
    """Places in a translation that each keep one term."""

    def __init__(self, text: str, *, is_english: bool) -> None:
        self._text, self._is_english = text, is_english
        self._taken: list[Span] = []
        """In the order of the text, and apart."""
        self._searched: dict[str, int] = {}
        """Start of the next search for each form; all earlier places are taken."""

    def take(self, term: FoundTerm) -> tuple[str, int]:
        """Take the first place of a translation of a term where no other was taken; return both, or "" and -1."""
        for target in term.targets:
            inflects = _inflects(term, target)
            for form in _forms(target, is_english=self._is_english) if inflects else (target,):
                place = self._free(form)
                if place >= 0:
                    return self._text[place : place + len(form)], self._take(place, place + len(form))
            begun = len(self._text) - len(self._text.lstrip(_OPENING_MARKS))
            end, capital = begun + len(target), _capital(target)
            has_capital = inflects and target.islower() and find_whole(self._text, capital, begun) == begun
            if has_capital and not self._end_of_taken(begun, end):
                return capital, self._take(begun, end)
        return "", -1

    def take_alike(self, term: FoundTerm) -> tuple[Span, str] | None:
        """Take the place of a text that differs from a translation in case and white space; return it, and the text."""
        text, indices = self._squeezed
        for target in term.targets:
            letters, _ = _squeezed(target)
            place = text.find(letters)
            while place >= 0:
                start, end = indices[place], indices[place + len(letters) - 1] + 1
                is_whole = is_boundary(self._text, start) and is_boundary(self._text, end)
                if is_whole and _is_alike(self._text[start:end], target) and not self._end_of_taken(start, end):
                    self._take(start, end)
                    return (start, end), target
                place = text.find(letters, place + 1)
        return None

    def surplus(self, *, has_quotes: bool) -> list[Span]:
        """Return what the model wrote around the terms that were taken: quotes, if it read some; spaces in Chinese."""
        text = self._text
        found: set[Span] = set()
        for start, end in self._taken:
            first, last = start, end
            before = _BEFORE.search(text[max(0, start - _LONGEST_BEFORE) : start])
            after = _AFTER.match(text, end)
            if has_quotes and before and after:
                first, last = start - len(before.group()), after.end()
                found |= {(first, first + 1), after.span(1)}
            if (
                text[first - 1 : first] == " "
                and is_never_spaced(text[first - 2 : first - 1])
                and is_never_spaced(text[start])
            ):
                found.add((first - 1, first))
            if (
                text[last : last + 1] == " "
                and is_never_spaced(text[last + 1 :][:1])
                and is_never_spaced(text[end - 1])
            ):
                found.add((last, last + 1))
        return [span for span in found if not self._end_of_taken(*span)]

    @cached_property
    def _squeezed(self) -> tuple[str, list[int]]:
        return _squeezed(self._text)

    def _free(self, form: str) -> int:
        """Return where a text stands as whole words where no other was taken; -1 if nowhere."""
        place = find_whole(self._text, form, self._searched.get(form, 0))
        while place >= 0 and (end := self._end_of_taken(place, place + len(form))):
            place = find_whole(self._text, form, end)
        self._searched[form] = place if place >= 0 else len(self._text)
        return place

    def _take(self, start: int, end: int) -> int:
        insort(self._taken, (start, end))
        return start

    def _end_of_taken(self, start: int, end: int) -> int:
        """Return the greatest taken end among some characters; 0 if they are free."""
        last = bisect_left(self._taken, (end,)) - 1
        return self._taken[last][1] if last >= 0 and self._taken[last][1] > start else 0


def _inflects(term: FoundTerm, target: str) -> bool:
    """Return whether a translation is a word of the target language, not a copy of the source."""
    return term.pattern is None and target != term.source


def _capital(text: str) -> str:
    """Return a text with a capital, if that is one character as well."""
    capital = text[:1].upper()
    return capital + text[1:] if len(capital) == 1 else text


def _squeezed(text: str) -> tuple[str, list[int]]:
    """Return a text in lower case without white space, and the place of each of its characters."""
    places = [place for place, character in enumerate(text) if not character.isspace()]
    letters = [lower if len(lower := text[place].lower()) == 1 else text[place] for place in places]
    return "".join(letters), places


def _is_alike(written: str, target: str) -> bool:
    """Return whether a text with the letters of a translation is that, and no other words."""
    letters = "".join(target.split())
    is_name = len(target.split()) == 1 and not target.islower()
    # "it", "It" for "IT": another word.
    if is_name and letters != "".join(written.split()) and written in (written.lower(), written.capitalize()):
        return False
    # "a part" is not "apart", but "泽菲2 号" is "泽菲2号".
    return all(
        not (letter.isascii() and letter.isalpha() and after.isascii() and after.isalpha())
        for letter, after in ((letters[gap - 1], letters[gap]) for gap in _gaps(written) ^ _gaps(target))
    )


def _gaps(text: str) -> set[int]:
    """Return after how many letters white space follows."""
    return set(accumulate(map(len, text.split()[:-1])))


def _forms(target: str, *, is_english: bool) -> Iterator[str]:
    """Yield the ways to write a translation anywhere in a sentence: as asked, and the plural of an English noun."""
    yield target
    if is_english and _NOUN.fullmatch(target):
        if _CONSONANT_Y.fullmatch(target):
            yield f"{target[:-1]}ies"
        else:
            yield f"{target}{'es' if _SYLLABLE.fullmatch(target) else 's'}"


def match_of(
    term: FoundTerm, target: str = "", place: int = -1, reason: GlossaryOutcome | None = None
) -> GlossaryMatch:
    """Report a term with its translation and the place of this in the text; without one, `reason` says why."""
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
