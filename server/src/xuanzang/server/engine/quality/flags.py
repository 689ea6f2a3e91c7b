"""What is suspicious about the translation of one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xuanzang.server.bundles.quality_head import FlagLimits
from xuanzang.server.engine.quality.head import SearchedSentence, copied_share, low_attention_share
from xuanzang.server.engine.text.offsets import nfkc
from xuanzang.server.engine.text.scripts import LATIN, WITH_CHINESE, main_script, script_of, scripts_of
from xuanzang.server.engine.text.words import has_repetition
from xuanzang.server.engine.types import QualityFlag

MIN_RATED_TOKENS = 6
"""Source tokens from which on ratios of a sentence say something."""
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


def sentence_flags(sentence: SearchedSentence, limits: FlagLimits) -> Iterator[QualityFlag]:
    """Find what is suspicious.

    Yields:
        Flags, each at most once.
    """
    source, target = map(nfkc, (sentence.source, sentence.target))
    if has_repetition(target) and not has_repetition(source):
        yield QualityFlag.REPETITION
    if sentence.source_tokens >= MIN_RATED_TOKENS:
        ratio = len(sentence.token_scores) / sentence.source_tokens
        if not limits.min_token_ratio <= ratio <= limits.max_token_ratio:
            yield QualityFlag.LENGTH_RATIO
        if low_attention_share(sentence) > limits.max_low_attention_share:
            yield QualityFlag.LOW_COVERAGE
    if has_untranslated_part(source, target) or _is_copy(sentence):
        yield QualityFlag.UNTRANSLATED
    if not sentence.finished:
        yield QualityFlag.TRUNCATED
    if loses_number(source, target):
        yield QualityFlag.NUMBER_LOST
    if loses_name(source, target):
        yield QualityFlag.NAME_LOST


def _is_copy(sentence: SearchedSentence) -> bool:
    """Return whether nearly all words of the target are the source's, and both are in one script."""
    script = main_script(sentence.target)
    # A single word of Latin letters may well be a name.
    has_words = script not in ("", LATIN) or len(sentence.target.split()) >= _MIN_COPIED_WORDS
    return has_words and script == main_script(sentence.source) and copied_share(sentence) >= _MIN_COPIED_SHARE


def has_untranslated_part(source: str, target: str) -> bool:
    """Return whether a target in Latin letters has a part of the source, in the source's script."""
    script, scripts = main_script(source), scripts_of(target)
    if script in ("", LATIN) or scripts.keys() & WITH_CHINESE:
        return False
    return scripts[LATIN] > scripts[script] > 0 and _has_copied_run(source, target, script)


def _has_copied_run(source: str, target: str, script: str) -> bool:
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
