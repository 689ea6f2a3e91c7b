"""The scripts of a text: which one it is written in, and the languages that are written so."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

CJK = "CJK"
"""The script of Chinese characters, and the scripts that Japanese mixes with them."""
LATIN = "LATIN"
"""The script whose letters stand in texts of all languages."""
KANA = frozenset({"HIRAGANA", "KATAKANA"})
WITH_CHINESE = KANA | {"HANGUL"}
"""Scripts that are mixed with Chinese characters."""
_LANGUAGES: Mapping[str, str] = MappingProxyType(
    {
        CJK: "ja lzh wuu yue zh",
        "HANGUL": "ko",
        "CYRILLIC": "ba be bg ce cv kk ky mk mn os ru sah sr tg tt uk uz",
        "ARABIC": "ar arz azb ckb fa ks ku ps sd ug ur",
        "HEBREW": "he yi",
        "GREEK": "el",
        "DEVANAGARI": "bho hi mai mr ne sa",
        "BENGALI": "as bn",
        "THAI": "th",
        "GEORGIAN": "ka",
        "ARMENIAN": "hy",
        "GUJARATI": "gu",
        "GURMUKHI": "pa",
        "TAMIL": "ta",
        "TELUGU": "te",
        "KANNADA": "kn",
        "MALAYALAM": "ml",
        "SINHALA": "si",
        "KHMER": "km",
        "LAO": "lo",
        "MYANMAR": "my",
        "ORIYA": "or",
        "TIBETAN": "bo dz",
        "ETHIOPIC": "am ti",
    }
)
"""Languages that are written in scripts, by the first word of the names of their letters."""
_ALSO_LATIN = frozenset({"ku", "sr", "tt", "uz"})
_WITHOUT_LATIN = frozenset(code for codes in _LANGUAGES.values() for code in codes.split()) - _ALSO_LATIN
_WIDTHS = frozenset({"FULLWIDTH", "HALFWIDTH"})
# Words that a letter makes: five letters of an alphabet are about one.
_WORDS: Mapping[str, float] = MappingProxyType(
    {CJK: 1.0, "HIRAGANA": 0.5, "KATAKANA": 0.3, "HANGUL": 0.5, "THAI": 0.25, "LAO": 0.25, "KHMER": 0.25}
)
_WORDS_OF_A_LETTER = 0.2


@lru_cache(maxsize=8192)
def script_of(letter: str) -> str:
    """Return the script of a letter, such as "CJK": the first word of its name in Unicode, its width left out."""
    words = unicodedata.name(letter, "").replace("-", " ").split()
    return next((word for word in words if word not in _WIDTHS), "")


@lru_cache(maxsize=256)
def foreign_scripts(languages: tuple[str, ...]) -> frozenset[str]:
    """Return the scripts that none of some languages is written in.

    Args:
        languages: Codes of languages.
    """
    bases = {code.partition("-")[0].lower() for code in languages}
    foreign = {script for script, codes in _LANGUAGES.items() if bases.isdisjoint(codes.split())}
    return frozenset(foreign if "ja" in bases else foreign | KANA)


def scripts_of(text: str) -> Counter[str]:
    """Return the number of letters of each script."""
    return Counter(map(script_of, filter(str.isalpha, text)))


def main_script(text: str) -> str:
    """Return the script of most letters, of Latin ones only if there are no others; empty without letters."""
    scripts = scripts_of(text)
    others = [(count, script) for script, count in scripts.items() if script != LATIN]
    return max(others)[1] if others else next(iter(scripts), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """Script of a text."""

    script: str = ""
    """Script of most of its words; "CJK" for kana, too. Empty without letters."""
    share: float = 0.0
    """Share of the words that are written so, 0 to 1."""
    letters: Counter[str]

    def has(self, language: str) -> bool:
        """Return whether a text has letters of a language, whose code has no region."""
        return any(is_written_in(language, script) for script in self.letters)

    @property
    def kana_share(self) -> float:
        """Share of kana among kana and Chinese characters, 0 to 1."""
        kana = sum([self.letters.get(script, 0) for script in KANA])
        return kana / (kana + self.letters[CJK]) if kana else 0.0


def writing_of(text: str) -> Writing:
    """Find out how a text is written."""
    letters = scripts_of(text)
    words: defaultdict[str, float] = defaultdict(float)
    for script, count in letters.items():
        words[_family(script)] += count * _WORDS.get(script, _WORDS_OF_A_LETTER)
    if not words:
        return Writing(letters=letters)
    # Of equally many, Latin words stand in a text of the other script.
    script = max(words, key=lambda each: (words[each], each != LATIN))
    return Writing(script=script, share=words[script] / sum(words.values()), letters=letters)


@lru_cache(maxsize=4096)
def is_written_in(language: str, script: str) -> bool:
    """Return whether a language, without region, is written in a script; one in no table counts as Latin."""
    if script == LATIN:
        return language not in _WITHOUT_LATIN
    return language in _LANGUAGES.get(_family(script), "").split()


def is_known(script: str) -> bool:
    """Return whether the table says which languages are written in a script."""
    return script == LATIN or _family(script) in _LANGUAGES


def _family(script: str) -> str:
    return CJK if script in KANA else script
