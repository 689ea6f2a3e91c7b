"""Readings of texts whose language the caller does not name: translated, copied, or refused."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

from xuanzang.server.engine.text.language_codes import matched_language, near, primary
from xuanzang.server.engine.text.language_detection import DetectedLanguage, Detection, LanguageDetector
from xuanzang.server.engine.text.scripts import LATIN, is_known, is_written_in, scripts_of
from xuanzang.server.engine.types import Reading, TextKind

# Of what is detected with this probability 92% to 98% is right, the more the longer the text.
_MIN_CONFIDENCE = 0.5
# It takes more to refuse a text that could be translated: benchmarks/language_readings.py counts both errors.
_MAX_SERVED = 0.01
# Most words of other languages have less, and a few percent of English lines, all of one to three words.
_MIN_LIKELY = 0.1
# Fewer words in other scripts are quotations and names.
_MIN_SHARE = 0.7
_MIN_LETTERS = 3


@dataclass(frozen=True, kw_only=True)
class LanguageChoice:
    """Languages that a request leaves open."""

    sources: tuple[str, ...]
    """Codes of the languages that it may be translated from."""
    target: str = ""
    """Code of the language that it is translated into; empty if that depends on the text."""

    @cached_property
    def languages(self) -> frozenset[str]:
        """All of them, without script and region."""
        return frozenset(primary(code) for code in (*self.sources, self.target) if code)


_Best: TypeAlias = DetectedLanguage | None


def read(text: str, detector: LanguageDetector, choice: LanguageChoice) -> Reading:
    """Find out how a text without tags is to be read."""
    found = detector.detect(text, choice.languages)
    if not found.writing.letters:
        return Reading(kind=TextKind.UNCERTAIN, has_letters=False)
    best = next((each for each in found.languages if each.confidence >= _MIN_CONFIDENCE), None)
    if _is_outside(found, choice.sources) and (other := _other(text, found, best, choice.target, choice.sources)):
        return other
    code = matched_language(best.code, best.script, choice.sources) if best else None
    if best is not None and code is not None:
        return Reading(kind=TextKind.SERVED, language=code, confidence=best.confidence)
    if not _has_letters_of(text, choice.sources):
        return Reading(kind=TextKind.COPIED)
    is_doubtful = found.is_phrase and best is not None and best.code not in choice.languages
    return Reading(
        kind=TextKind.UNCERTAIN,
        language=_only_written(found, choice.sources),
        is_doubtful=is_doubtful,
        is_likely=_is_likely(found, choice.sources),
    )


def _other(text: str, found: Detection, best: _Best, target: str, sources: tuple[str, ...]) -> Reading | None:
    """Return how a text is read that is surely in none of the source languages; None if that is not sure enough."""
    if not found.is_prose or found.writing.letters.total() < _MIN_LETTERS:
        return None
    if best is not None and target and best.code == primary(target):
        if _has_letters_of(text, sources, besides=LATIN):
            return None
        code = matched_language(best.code, best.script, (target,)) or target
        return Reading(kind=TextKind.COPIED, language=code, confidence=best.confidence)
    if target and not _is_outside(found, (target,)):
        return None
    if best is None:
        return Reading(kind=TextKind.UNSERVED)
    return Reading(kind=TextKind.UNSERVED, language=best.code, confidence=best.confidence)


def _is_outside(found: Detection, codes: tuple[str, ...]) -> bool:
    """Return whether a text is surely in none of some languages: by its script, or by its words."""
    writing, probabilities = found.writing, found.probabilities
    if writing.share < _MIN_SHARE or not is_known(writing.script):
        return False
    if not _written_in(writing.script, codes):
        return True
    return bool(probabilities) and _probability(found, codes) <= _MAX_SERVED


def _is_likely(found: Detection, codes: tuple[str, ...]) -> bool:
    """Return whether anything speaks for some languages: a script, or words in Latin letters, which all texts have."""
    if found.writing.script != LATIN or not found.probabilities:
        return True
    return _probability(found, codes) >= _MIN_LIKELY


@lru_cache(maxsize=1024)
def _written_in(script: str, codes: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of some languages, and of their near ones, that are written in a script."""
    near_ones = dict.fromkeys(language for code in codes for language in near(code))
    return tuple(language for language in near_ones if is_written_in(language, script))


def _probability(found: Detection, codes: tuple[str, ...]) -> float:
    """Return the probability that a text is in one of some languages."""
    return sum([found.probabilities.get(each, 0.0) for each in _written_in(found.writing.script, codes)])


def _has_letters_of(text: str, sources: Collection[str], *, besides: str = "") -> bool:
    """Return whether any part of a text is written in a script of the source languages, besides one script."""
    scripts = scripts_of("".join(set(text))).keys() - {besides}
    return any(is_written_in(primary(code), script) or not is_known(script) for script in scripts for code in sources)


def _only_written(found: Detection, sources: Collection[str]) -> str:
    """Return the only source language that is written as a text is; empty if there are none or several.

    Latin letters count only where there are no others: Chinese has words in them, English has none in Chinese.
    """
    scripts = found.writing.letters.keys() - {LATIN} or {LATIN}
    written = [code for code in sources if any(is_written_in(primary(code), script) for script in scripts)]
    return written[0] if len(written) == 1 else ""
