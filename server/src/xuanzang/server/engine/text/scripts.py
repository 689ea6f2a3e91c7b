"""The script of a text, which tells the language of one that is too short for more."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

_CJK = "CJK"
LATIN = "LATIN"
"""The script whose letters stand in texts of all languages."""
_LANGUAGES: Mapping[str, str] = MappingProxyType(
    {
        _CJK: "ja yue zh",
        "HIRAGANA": "ja",
        "KATAKANA": "ja",
        "HANGUL": "ko",
        "CYRILLIC": "be bg kk ky mk mn ru sr tg tt uk uz",
        "ARABIC": "ar ckb fa ks ku ps sd ug ur",
        "HEBREW": "he yi",
        "GREEK": "el",
        "DEVANAGARI": "bho hi mai mr ne sa",
        "BENGALI": "as bn",
        "THAI": "th",
        "GEORGIAN": "ka",
        "ARMENIAN": "hy",
    }
)
"""Languages that are written in scripts, by the first word of the names of their letters."""
_OTHER_SCRIPTS = "am bo dz gu km kn lo ml my or pa si ta te ti"
_WITHOUT_LATIN = frozenset(code for codes in (*_LANGUAGES.values(), _OTHER_SCRIPTS) for code in codes.split())
_READ_CHARACTERS = 300
WITH_CHINESE = frozenset({"HIRAGANA", "KATAKANA", "HANGUL"})
"""Scripts that stand beside Chinese characters."""
_PLAINLY = 10
"""Chinese characters among which Japanese would have kana."""


@lru_cache(maxsize=8192)
def script_of(letter: str) -> str:
    """Return the script of a letter, such as "CJK": the first word of its name in Unicode."""
    return unicodedata.name(letter, "").partition(" ")[0].partition("-")[0]


def scripts_of(text: str) -> Counter[str]:
    """Return the number of letters of each script."""
    return Counter(script_of(character) for character in text if character.isalpha())


def main_script(text: str) -> str:
    """Return the script of most letters, of Latin ones only if there are no others; empty without letters."""
    scripts = scripts_of(text)
    others = [(count, script) for script, count in scripts.items() if script != LATIN]
    return max(others)[1] if others else next(iter(scripts), "")


def is_plainly_chinese(text: str) -> bool:
    """Return whether a text has so many Chinese characters that no classifier need be asked.

    Args:
        text: Any text. At least ten of its letters, and half of them, must be Chinese characters, none kana or hangul.
    """
    scripts = scripts_of(text)
    count = scripts[_CJK]
    return count >= _PLAINLY and 2 * count >= scripts.total() and not scripts.keys() & WITH_CHINESE


def language_of_script(text: str, languages: Iterable[str]) -> str | None:
    """Find the only language that is written as a text is.

    Latin letters count only where there are no others: Chinese has words in them, English has none in Chinese.

    Args:
        text: Any text; only its beginning counts.
        languages: BCP-47 codes to choose among.

    Returns:
        One of the codes; None if the text has no letters, or those of no language or of several.
    """
    script = main_script(text[:_READ_CHARACTERS])
    written = [code for code in languages if _is_written(code.partition("-")[0].lower(), script)]
    return written[0] if script and len(written) == 1 else None


def _is_written(language: str, script: str) -> bool:
    return language not in _WITHOUT_LATIN if script == LATIN else language in _LANGUAGES.get(script, "").split()
