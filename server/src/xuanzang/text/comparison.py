"""Translations compared: with their sources, with references by chrF (Popović 2015), and with one another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from xuanzang.text.numbers.quantities import numbers_in_digits, numbers_of, same_values
from xuanzang.text.scripts import LATIN, WITH_CHINESE, main_script, script_of, scripts_of

_WORD = re.compile(r"[^\W\d_]+")
_MIN_COPIED_SHARE = 0.8
_MIN_COPIED_WORDS = 2
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]+")
_MARKED_IDENTIFIER = re.compile(r"[0-9_]|[a-z][A-Z]")
_MIN_LOWERCASE = 3
# The values of the paper, and of sacrebleu's chrF2: sequences of 1 to 6 characters, recall counts four times.
_MAX_LENGTH = 6
_RECALL_WEIGHT = 4


def copied_share(source: str, target: str) -> float:
    """Return the share of the target's letters in words that the source has, too; 0 without letters."""
    folded = source.casefold()
    words: list[str] = _WORD.findall(target.casefold())
    return sum(len(word) for word in words if word in folded) / max(sum(map(len, words)), 1)


def is_copy(source: str, target: str) -> bool:
    """Return whether nearly all words of the target are the source's, and both are in one script."""
    script = main_script(target)
    # A single word of Latin letters may well be a name.
    has_words = script not in ("", LATIN) or len(target.split()) >= _MIN_COPIED_WORDS
    return has_words and script == main_script(source) and copied_share(source, target) >= _MIN_COPIED_SHARE


def has_untranslated_part(source: str, target: str) -> bool:
    """Return whether a target in Latin letters has a part of the source, in the source's script."""
    script, scripts = main_script(source), scripts_of(target)
    if script in ("", LATIN) or scripts.keys() & WITH_CHINESE:
        return False
    if not scripts[LATIN] > scripts[script] > 0:
        return False
    letters = [letter if script_of(letter) == script else " " for letter in target]
    return any(len(run) > 1 and run in source for run in "".join(letters).split())


def loses_number(source: str, target: str) -> bool:
    """Return whether a number of the source, written in digits, is missing in the target, or one of the target is new.

    Numbers are compared by value: thousands marks, 万, 亿 and the number words of Chinese and English are read.
    """
    ours, theirs = numbers_in_digits(source), numbers_in_digits(target)
    return (bool(ours) and _lacks(ours, numbers_of(target))) or (bool(theirs) and _lacks(theirs, numbers_of(source)))


def _lacks(wanted: Iterable[Decimal], found: Collection[Decimal]) -> bool:
    # 1 may be an article, and 0 the minutes of a full hour.
    return any(value > 1 and not any(each in found for each in same_values(value)) for value in wanted)


def loses_name(source: str, target: str) -> bool:
    """Return whether a name or identifier of the source, written in Latin letters, is missing in the target.

    In a source of another script any Latin word of more than a few letters counts; in one of Latin script only those
    with digits, underscores or capitals inside.
    """
    written_in_latin = main_script(source) in ("", LATIN)
    kept = target.casefold()
    return any(
        name.casefold() not in kept for name in _IDENTIFIER.findall(source) if _is_name(name, strict=written_in_latin)
    )


def _is_name(word: str, *, strict: bool) -> bool:
    if strict:
        return _MARKED_IDENTIFIER.search(word) is not None
    return len(word) >= _MIN_LOWERCASE or not word.islower()


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Compare texts with their references.

    Returns:
        0 for nothing in common to 100 for equal texts, white space apart. Counts are summed over all texts, so long
        ones count more; for one text it is the chrF of a sentence.
    """
    pairs = [
        ("".join(text.split()), "".join(wanted.split())) for text, wanted in zip(hypotheses, references, strict=True)
    ]
    precisions, recalls = [], []
    for length in range(1, _MAX_LENGTH + 1):
        counts = [(_sequences(text, length), _sequences(reference, length)) for text, reference in pairs]
        # A reference that is too short for a length says nothing, nor does a length that one side is too short for.
        found = sum(ours.total() for ours, theirs in counts if theirs)
        wanted = sum(theirs.total() for _, theirs in counts)
        if found and wanted:
            shared = sum((ours & theirs).total() for ours, theirs in counts)
            precisions.append(shared / found)
            recalls.append(shared / wanted)
    if not any(precisions):
        return 0.0
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return 100 * (1 + _RECALL_WEIGHT) * precision * recall / (_RECALL_WEIGHT * precision + recall)


def _sequences(text: str, length: int) -> Counter[str]:
    return Counter(text[start : start + length] for start in range(len(text) - length + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement of two translations of the same texts."""

    exact_match: float
    """Share of equal translations, 0 to 1."""
    chrf: float
    """chrF of the first with the second as references, 0 to 100."""
    length_ratio: float
    """Characters of the first, divided by those of the second."""


def compare(first: Sequence[str], second: Sequence[str]) -> Agreement:
    """Compare translations of the same texts, at least one."""
    equal = sum(ours == theirs for ours, theirs in zip(first, second, strict=True))
    lengths = sum(map(len, first)), sum(map(len, second))
    return Agreement(
        exact_match=equal / len(first),
        # Two translations without a character that is no white space agree.
        chrf=100.0 if equal == len(first) else chrf(first, second),
        # One character stands for the nothing that no ratio can have below it.
        length_ratio=1.0 if lengths == (0, 0) else lengths[0] / max(1, lengths[1]),
    )
