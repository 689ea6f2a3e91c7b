"""Detection of the language of a text, with the libraries of the extra `detection`."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

from xuanzang.server.engine.text.scripts import is_plainly_chinese

MAX_READ_CHARACTERS = 1000
"""Characters of a text that are looked at; more would change no answer."""

# Languages that are told apart, besides those of the models: the most written ones. Each more takes probability from
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedLanguage:
    """A language that a text may be in."""

    code: str
    """BCP-47 code, such as "de"; for Chinese "zh-Hans" or "zh-Hant", or "zh" if its characters are the same in both."""
    confidence: float
    """Probability among the languages that are told apart, 0 to 1."""


Rank: TypeAlias = Callable[[str], Iterable[tuple[str, float]]]
"""Text to languages with their probabilities; equal ones if it says nothing."""


class Classifier(NamedTuple):
    """What the libraries know of languages."""

    rank: Rank
    chinese: Callable[[str], str]
    """Code of Chinese text."""


class LanguageDetector:
    """Finds the languages that texts may be in. Threads may share it."""

    def __init__(self, read: Callable[[], Classifier]) -> None:
        """Make a detector that has read nothing yet.

        Args:
            read: Function that reads the classifier.
        """
        self._read = read
        self._reading = threading.Lock()
        self._known: Classifier | None = None

    def open(self) -> Classifier:
        """Read the classifier now and not with the first text, unless it has been read."""
        with self._reading:
            if self._known is None:
                self._known = self._read()
            return self._known

    def detect(self, text: str, languages: Iterable[str] = ()) -> list[DetectedLanguage]:
        """Find the languages that a text may be in.

        Args:
            text: Any text; only its beginning counts.
            languages: Primary subtags to tell apart besides the most written languages.

        Returns:
            Languages, likeliest first; none if the text has no letters, or none that say anything.
        """
        beginning = text[:MAX_READ_CHARACTERS]
        if not any(map(str.isalpha, beginning)):
            return []
        classifier = self.open()
        if is_plainly_chinese(beginning):
            return [DetectedLanguage(code=classifier.chinese(beginning), confidence=1.0)]
        likely = _probabilities(classifier.rank(beginning), _COMMON.union(languages))
        ordered = sorted(likely.items(), key=lambda item: (-item[1], item[0]))
        return [
            DetectedLanguage(code=classifier.chinese(beginning) if code == "zh" else code, confidence=probability)
            for code, probability in ordered[:_MAX_LANGUAGES]
            if probability >= _MIN_CONFIDENCE
        ]


def _probabilities(ranked: Iterable[tuple[str, float]], languages: Collection[str]) -> dict[str, float]:
    """Return the probabilities among some languages, which sum to 1."""
    likely: dict[str, float] = {}
    for label, probability in ranked:
        language = _PART_OF.get(label, label)
        if language in languages:
            likely[language] = likely.get(language, 0.0) + probability
    total = sum(likely.values())
    return {language: probability / total for language, probability in likely.items()}


def is_installed() -> bool:
    """Return whether the libraries of the extra `detection` are there."""
    return all(importlib.util.find_spec(name) for name in ("py3langid", "hanzidentifier"))


def available_detector() -> LanguageDetector | None:
    """Return the detector of the process, or None without the libraries of the extra `detection`."""
    return shared_detector() if is_installed() else None


@cache
def shared_detector() -> LanguageDetector:
    """Return the detector of the process; it reads its classifier, half a second and 75 MB, when it is first needed."""
    return LanguageDetector(_classifier)


def _classifier() -> Classifier:
    import hanzidentifier  # noqa: PLC0415 - an extra
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # noqa: PLC0415

    scripts = {hanzidentifier.SIMPLIFIED: "zh-Hans", hanzidentifier.TRADITIONAL: "zh-Hant"}
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    return Classifier(identifier.rank, lambda text: scripts.get(hanzidentifier.identify(text), "zh"))
