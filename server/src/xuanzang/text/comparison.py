"""Translations compared: with their sources, with references by chrF (Popović 2015), and with one another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from xuanzang.text.scripts import LATIN, WITH_CHINESE, main_script, script_of, scripts_of

_WORD = re.compile(r"[^\W\d_]+")
_MIN_COPIED_SHARE = 0.8
_MIN_COPIED_WORDS = 2
_GROUPING = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_SCALED = re.compile(r"(?<!\d)\d++(?:\.\d++)?+\s*+[十百千万亿萬億]")
_DIGITS = re.compile(r"\d+")
# Up to here numbers may be written as words, months above all.
_MAX_SPELLED = "12"
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
    """Return whether a number of the source, written in digits, is missing in the target.

    Small numbers do not count, as they may be written as words, nor those of which a character is a part, such as 3万.
    """
    wanted = {number for number in _numbers(_SCALED.sub(" ", source)) if _is_large(number)}
    return not wanted <= _numbers(target)


def _numbers(text: str) -> set[str]:
    return {run.lstrip("0") for run in _DIGITS.findall(_GROUPING.sub("", text))}


def _is_large(number: str) -> bool:
    return len(number) > len(_MAX_SPELLED) or (len(number) == len(_MAX_SPELLED) and number > _MAX_SPELLED)


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
    """How alike two translations of the same texts are."""

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
