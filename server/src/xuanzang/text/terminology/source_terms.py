"""Sentences whose terms are replaced by their translations, for the model.

A model that reads 请打开 WeChat。 translates around the term. One that reads 请打开微信。 and must write "WeChat"
translates 微信 as well, and writes both.

Source: Dinu et al. 2019, arXiv:1906.01105, who train a model on such sentences; most models copy words in the target
language without that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xuanzang.text.offsets import Span
from xuanzang.text.words import is_spaced_from


class _Replacement(NamedTuple):
    """A place of the new text, spaces that were added counted, and that of the old text."""

    new: Span
    old: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class TextWithTerms:
    """A sentence with translations in the place of terms."""

    text: str
    replacements: tuple[_Replacement, ...]
    """In the order of the text."""

    def before(self, spans: Iterable[Span]) -> list[Span]:
        """Map spans to the original sentence; each part of a translation stands for the whole term."""
        return [(self._start_before(start), self._end_before(end)) for start, end in spans]

    def after(self, place: int) -> int:
        """Map an end in the original sentence to this one; within a term to its end, or as far from its beginning."""
        shift = 0
        for new, old in self.replacements:
            if place <= old[0]:
                break
            if place < old[1]:
                return min(new[0] + place - old[0], new[1])
            shift = new[1] - old[1]
        return place + shift

    def _start_before(self, place: int) -> int:
        shift = 0
        for new, old in self.replacements:
            if place < new[0]:
                break
            if place < new[1]:
                return old[0]
            shift = old[1] - new[1]
        return place + shift

    def _end_before(self, place: int) -> int:
        shift = 0
        for new, old in self.replacements:
            if place <= new[0]:
                break
            if place <= new[1]:
                return old[1]
            shift = old[1] - new[1]
        return place + shift


def with_terms(text: str, terms: Sequence[tuple[Span, str]]) -> TextWithTerms:
    """Put translations in the place of terms, in their order; a space is added where one of two scripts has spaces."""
    parts: list[str] = []
    replacements: list[_Replacement] = []
    length = end = 0
    for place, target in terms:
        between = text[end : place[0]]
        before, after = (between or "".join(parts))[-1:], text[place[1] :][:1]
        put = f"{_space(before, target[:1])}{target}{_space(target[-1:], after)}"
        length += len(between)
        replacements.append(_Replacement((length, length + len(put)), place))
        parts += [between, put]
        length += len(put)
        end = place[1]
    return TextWithTerms(text="".join([*parts, text[end:]]), replacements=tuple(replacements))


def _space(before: str, after: str) -> str:
    return " " if is_spaced_from(before, after) else ""
