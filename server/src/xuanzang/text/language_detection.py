"""The language of a text, by its script and, with the libraries of the extra `detection`, by its words.

A text without a named language is translated, copied, or refused.
"""

from __future__ import annotations

import importlib.util
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from xuanzang.text.language_codes import matched_language, near, primary
from xuanzang.text.scripts import (
    CJK,
    LATIN,
    Writing,
    is_known,
    is_written_in,
    script_of,
    scripts_of,
    writing_of,
)
from xuanzang.text.types import Reading, TextKind

if TYPE_CHECKING:
    from xuanzang.text.language_model import Rank

MAX_READ_CHARACTERS = 1000
"""Characters of a text that are looked at; more would change no answer."""

# Languages that are distinguished in addition to the models': the most written ones. Each more takes probability from
# the others, most of all in texts of one word.
_COMMON = frozenset(
    (
        *("ar", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "et", "fa", "fi", "fr", "gu", "he", "hi", "hr"),
        *("hu", "hy", "id", "it", "ja", "ka", "kk", "km", "kn", "ko", "lo", "lt", "lv", "ml", "mn", "mr", "ms", "my"),
        *("ne", "nl", "no", "pa", "pl", "pt", "ro", "ru", "si", "sk", "sl", "sq", "sr", "sv", "sw", "ta", "te", "th"),
        *("tl", "tr", "uk", "ur", "uz", "vi", "zh"),
    )
)
# Labels of the library that are written languages only as a part of another one.
_PART_OF = {"yue": "zh", "wuu": "zh", "nb": "no", "nn": "no"}
_MIN_CONFIDENCE = 0.1
_MAX_LANGUAGES = 5
# Texts come to a server in its languages more often than in any other, which decides in single words such as "hello".
_TIMES_AS_LIKELY = 10.0
_PLAINLY = 10
"""Chinese characters among which Japanese would have kana."""
_PLAINLY_KANA = 0.5
"""Share of kana that no Chinese text reaches by quoting Japanese."""
_PROSE_WORDS = 3
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
# Detections with this probability are 92% to 98% right, long texts more often.
_MIN_SURE = 0.5
# It takes more to refuse a text that could be translated: benchmarks/language_readings.py counts both errors.
_MAX_SERVED = 0.01
# Most words of other languages have less, and a few percent of English lines, all of one to three words.
_MIN_LIKELY = 0.1
# Fewer words in other scripts are quotations and names.
_MIN_SHARE = 0.7
_MIN_LETTERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedLanguage:
    """A language that a text may be in."""

    code: str
    """Code of the language, without script or region, such as "zh"."""
    confidence: float
    """Probability among the languages that are told apart, 0 to 1."""
    script: str = ""
    """Script of Chinese, "Hans" or "Hant", if its characters tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """Findings about the language of a text."""

    writing: Writing
    probabilities: Mapping[str, float] = field(default_factory=dict)
    """Probabilities of the languages that are written so, which sum to 1; none if nothing tells them apart."""
    chinese_script: str = ""
    """Script of the text if it is Chinese: "Hans", "Hant", or empty if its characters are the same in both."""
    is_prose: bool = True
    """True if the words are no names and headings, which may be in any language."""
    is_phrase: bool = False
    """True if it has two words or more and, unlike names, only the first may begin with a capital letter."""

    def favouring(self, languages: Collection[str]) -> Detection:
        """Return what is found if some languages, those of a server, are likelier beforehand than all others."""
        weights = {
            code: probability * (_TIMES_AS_LIKELY if code in languages else 1.0)
            for code, probability in self.probabilities.items()
        }
        total = sum(weights.values())
        return replace(self, probabilities={code: weight / total for code, weight in weights.items()})

    @property
    def languages(self) -> list[DetectedLanguage]:
        """Languages that the text may be in, likeliest first."""
        likely = [
            (-confidence, code)
            for code, probability in self.probabilities.items()
            if (confidence := probability * self.writing.share) >= _MIN_CONFIDENCE
        ]
        return [
            DetectedLanguage(code=code, confidence=-negative, script=self.chinese_script if code == "zh" else "")
            for negative, code in sorted(likely)[:_MAX_LANGUAGES]
        ]


class Libraries(NamedTuple):
    """Language data of the libraries, each read when it is first needed."""

    read_rank: Callable[[], Rank]
    chinese_script: Callable[[str], str]
    """Script of Chinese text: "Hans", "Hant", or empty."""


class LanguageDetector:
    """Finds the languages that texts may be in. Threads may share it."""

    def __init__(self, libraries: Libraries | None) -> None:
        """Read nothing yet; without libraries only languages with a script of their own are told apart."""
        self._libraries = libraries
        self._reading = threading.Lock()
        self._known: Rank | None = None

    @property
    def is_complete(self) -> bool:
        """True if languages of one script are told apart."""
        return self._libraries is not None

    def open(self) -> None:
        """Read the libraries now and not with the first text, if there are any."""
        if self._libraries:
            self._libraries.chinese_script("")
            self._rank()

    def detect(self, text: str, languages: Iterable[str] = ()) -> Detection:
        """Find out about the language of a text; `languages` are added to the most written ones."""
        sample = _sample(text)
        writing = writing_of(sample)
        if not writing.letters:
            return Detection(writing=writing)
        candidates = _written_in(writing.script, frozenset(languages))
        is_latin = writing.script == LATIN
        # True for words with a small initial: sentences have some; names, headings and abbreviations have none.
        small = [word[0].islower() for word in _words(sample, LATIN)] if is_latin else []
        return Detection(
            writing=writing,
            probabilities=self._probabilities(sample, writing, candidates),
            chinese_script=self._chinese_script(sample) if writing.script == CJK else "",
            is_prose=not is_latin or (len(small) >= _PROSE_WORDS and sum(small) >= _PROSE_WORDS - 1),
            is_phrase=len(small) > 1 and all(small[1:]),
        )

    def _probabilities(self, text: str, writing: Writing, candidates: frozenset[str]) -> Mapping[str, float]:
        if writing.script == CJK:
            # Characters tell many texts without the model.
            if writing.kana_share >= _PLAINLY_KANA and "ja" in candidates:
                return {"ja": 1.0}
            if writing.letters[CJK] >= _PLAINLY and not writing.kana_share and "zh" in candidates:
                return {"zh": 1.0}
        if len(candidates) == 1:
            return dict.fromkeys(candidates, 1.0)
        if not candidates or (rank := self._rank()) is None:
            return {}
        words = text if writing.script == CJK else " ".join(_words(text, writing.script))
        probabilities: dict[str, float] = {}
        languages = _labels_of(candidates)
        for label, probability in rank(words, candidates):
            language = languages[label]
            probabilities[language] = probabilities.get(language, 0.0) + probability
        return probabilities

    def _chinese_script(self, text: str) -> str:
        return self._libraries.chinese_script(text) if self._libraries else ""

    def _rank(self) -> Rank | None:
        if self._libraries is None:
            return None
        with self._reading:
            if self._known is None:
                self._known = self._libraries.read_rank()
            return self._known


@lru_cache(1024)
def _written_in(script: str, languages: frozenset[str]) -> frozenset[str]:
    """Return those of some languages, and of the most written ones, that are written in a script."""
    return frozenset(code for code in _COMMON | languages if is_written_in(code, script))


def _sample(text: str) -> str:
    """Return what shows the language of a text: all of it, or parts from its beginning, middle and end."""
    if len(text) <= MAX_READ_CHARACTERS:
        return text
    part, middle = MAX_READ_CHARACTERS // 4, len(text) // 2
    return "\n".join((text[: 2 * part], text[middle : middle + part], text[-part:]))


def _words(text: str, script: str) -> Iterable[str]:
    return (word for word in _WORD.findall(text) if script_of(word[0]) == script)


@lru_cache(32)
def _labels_of(languages: frozenset[str]) -> Mapping[str, str]:
    """Return the labels of the library that stand for some languages, each with its language."""
    parts = {label: language for label, language in _PART_OF.items() if language in languages}
    return parts | {language: language for language in languages}


def is_installed() -> bool:
    """Return whether the libraries of the extra `detection` are there."""
    return all(importlib.util.find_spec(name) for name in ("py3langid", "hanzidentifier"))


def installed_libraries(open_model: Callable[[], BinaryIO] | None = None) -> Libraries | None:
    """Return the libraries of the extra `detection`; None if they are not installed.

    `open_model` opens the file that holds their model of words; without it, the model is unpacked in half a second.
    """
    return Libraries(partial(_mapped_rank, open_model), _chinese_script) if is_installed() else None


def _mapped_rank(open_model: Callable[[], BinaryIO] | None) -> Rank:
    from xuanzang.text import language_model  # noqa: PLC0415 - an extra, and numpy

    return language_model.mapped_rank(_labels_of, open_model or language_model.unpacked_file)


def _chinese_script(text: str) -> str:
    import hanzidentifier  # noqa: PLC0415 - an extra

    scripts = {hanzidentifier.SIMPLIFIED: "Hans", hanzidentifier.TRADITIONAL: "Hant"}
    return scripts.get(hanzidentifier.identify(text), "")


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


def read(text: str, detector: LanguageDetector, choice: LanguageChoice) -> Reading:
    """Find out how to read a text without tags."""
    found = detector.detect(text, choice.languages)
    if not found.writing.letters:
        return Reading(kind=TextKind.UNCERTAIN, has_letters=False)
    likely = found.languages
    best = likely[0] if likely and likely[0].confidence >= _MIN_SURE else None
    if _is_outside(found, choice.sources) and (other := _other(text, found, best, choice)):
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
        scripts=frozenset(found.writing.letters),
        is_doubtful=is_doubtful,
        # Words in Latin letters, which all texts have, speak for a language less than another script does.
        is_likely=found.writing.script != LATIN
        or not found.probabilities
        or _probability(found, choice.sources) >= _MIN_LIKELY,
    )


def narrowed(reading: Reading, source: str) -> Reading:
    """Return how a text is read once other texts of its request tell the source language; empty: none does."""
    is_of_another = reading.kind is TextKind.UNCERTAIN and reading.language not in ("", source)
    if is_of_another and source and not _may_be_of(reading.scripts, (source,)):
        return Reading(kind=TextKind.COPIED)
    return reading


def _other(text: str, found: Detection, best: DetectedLanguage | None, choice: LanguageChoice) -> Reading | None:
    """Return how a text is read that is surely in none of the source languages; None if that is not sure enough."""
    if not found.is_prose or found.writing.letters.total() < _MIN_LETTERS:
        return None
    target = choice.target
    if best is not None and target and best.code == primary(target):
        if _has_letters_of(text, choice.sources, besides=LATIN):
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
    if not _near_written_in(writing.script, codes):
        return True
    return bool(probabilities) and _probability(found, codes) <= _MAX_SERVED


@lru_cache(maxsize=1024)
def _near_written_in(script: str, codes: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of some languages, and of their near ones, that are written in a script."""
    near_ones = dict.fromkeys(language for code in codes for language in near(code))
    return tuple(language for language in near_ones if is_written_in(language, script))


def _probability(found: Detection, codes: tuple[str, ...]) -> float:
    """Return the probability that a text is in one of some languages."""
    return sum([found.probabilities.get(each, 0.0) for each in _near_written_in(found.writing.script, codes)])


def _has_letters_of(text: str, sources: Collection[str], *, besides: str = "") -> bool:
    """Return whether any part of a text is written in a script of the source languages other than the given one."""
    return _may_be_of(scripts_of("".join(set(text))).keys() - {besides}, sources)


def _may_be_of(scripts: Collection[str], sources: Collection[str]) -> bool:
    return any(is_written_in(primary(code), script) or not is_known(script) for script in scripts for code in sources)


def _only_written(found: Detection, sources: Collection[str]) -> str:
    """Return the only source language that is written as a text is; empty if there are none or several.

    Latin letters count only where there are no others: Chinese has words in them, English has none in Chinese.
    """
    scripts = found.writing.letters.keys() - {LATIN} or {LATIN}
    written = [code for code in sources if any(is_written_in(primary(code), script) for script in scripts)]
    return written[0] if len(written) == 1 else ""
