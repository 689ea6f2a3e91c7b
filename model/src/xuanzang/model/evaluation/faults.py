"""Faults of translations, counted without knowledge of the language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from xuanzang.model.data.augmentation.spans import kept_spans

# Words or a part of one four times in a row, or one character ten times. `has_loop` appends a space, so that the last
# word ends as the others do.
_LOOP = re.compile(r"(\S.{1,60}?)\1{3}|(\S)\2{9}", re.DOTALL)


class Faults(NamedTuple):
    """Faults of translations, counted without knowledge of the language."""

    empty: int
    """Translations without a character."""
    loops: int
    """Translations that repeat themselves where the source does not."""
    length_ratio: float
    """Characters of all translations per character of the references."""
    spans: int
    """Placeholders, tags, links, paths, names and numbers in the sources."""
    kept: int
    """Spans that are in the translation as well."""

    def __str__(self) -> str:
        """Return one line for people."""
        share = f"{self.kept / self.spans:.1%} of {self.spans}" if self.spans else "none to keep"
        return (
            f"empty {self.empty}  loops {self.loops}  length {self.length_ratio:.2f} of the references  "
            f"placeholders, markup, links, names and numbers kept: {share}"
        )


def count_faults(sources: Sequence[str], translations: Sequence[str], references: Sequence[str]) -> Faults:
    """Count what goes wrong in translations.

    Args:
        sources: Normalised sources, one per sentence.
        translations: Translations, one per sentence.
        references: References, one per sentence, with at least one character in all.
    """
    spans = [kept_spans(*pair) for pair in zip(sources, translations, strict=True)]
    return Faults(
        empty=sum(not text.strip() for text in translations),
        loops=sum(has_loop(text) and not has_loop(source) for source, text in zip(sources, translations, strict=True)),
        length_ratio=sum(map(len, translations)) / sum(map(len, references)),
        spans=sum(wanted for _, wanted in spans),
        kept=sum(kept for kept, _ in spans),
    )


def has_loop(text: str) -> bool:
    """Return whether a piece of a text follows itself three times over, as when decoding does not find its end."""
    return _LOOP.search(f"{text} ") is not None
