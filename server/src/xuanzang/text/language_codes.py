"""BCP-47 codes of languages: the offered code that a requested one means."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

_NEAR = tuple(
    frozenset(codes.split())
    for codes in ("zh cmn yue wuu lzh", "no nb nn da", "id ms", "hr bs sr sh", "tl fil", "fa prs", "he iw")
)
"""Languages that no detector tells apart for sure, and several names of one."""

_MEANT = {
    **dict.fromkeys(
        ("cn", "chs", "cht", "chi", "zho", "cmn", "chinese", "mandarin", "simplified", "中文", "汉语"), "zh"
    ),
    **dict.fromkeys(("eng", "english", "us", "gb", "英语", "英文"), "en"),
    **dict.fromkeys(("jp", "jpn", "japanese"), "ja"),
    **dict.fromkeys(("kr", "kor", "korean"), "ko"),
    **dict.fromkeys(("ger", "deu", "german", "deutsch"), "de"),
    **dict.fromkeys(("fre", "fra", "french"), "fr"),
    **dict.fromkeys(("spa", "spanish"), "es"),
    **dict.fromkeys(("rus", "russian"), "ru"),
    **dict.fromkeys(("por", "portuguese", "br"), "pt"),
    **dict.fromkeys(("ita", "italian"), "it"),
    **dict.fromkeys(("ara", "arabic"), "ar"),
    **dict.fromkeys(("ukr", "ukrainian", "ua"), "uk"),
    **dict.fromkeys(("cz", "ces", "czech"), "cs"),
    **dict.fromkeys(("vn", "vie", "vietnamese"), "vi"),
    **dict.fromkeys(("tur", "turkish"), "tr"),
    **dict.fromkeys(("hin", "hindi"), "hi"),
}
"""Codes of common languages by their substitutes: countries, ISO 639-2, names."""

_TRADITIONAL = frozenset({"hant", "hk", "mo", "tw"})


def primary(code: str) -> str:
    """Return the language of a BCP-47 code, such as "zh-Hant-TW", in lower case, without script and region."""
    return code.partition("-")[0].lower()


@lru_cache(maxsize=1024)
def near(code: str) -> frozenset[str]:
    """Return the languages that a text in a language may be taken for, itself included."""
    language = primary(code)
    return next((group for group in _NEAR if language in group), frozenset({language}))


def is_traditional(code: str) -> bool:
    """Return whether a BCP-47 code, such as "zh-Hant" or "zh-TW", asks for Chinese in traditional characters."""
    language, *others = code.lower().split("-")
    return language == "zh" and "hans" not in others and not _TRADITIONAL.isdisjoint(others)


def matched_target(wanted: str, offered: Iterable[str]) -> str | None:
    """Find the offered code that a wanted one means, but none in other characters: "zh-TW" is not "zh"."""
    return matched(wanted, filter(is_traditional, offered) if is_traditional(wanted) else offered)


def matched(wanted: str, offered: Iterable[str]) -> str | None:
    """Find the offered code that a wanted one means by the lookup of RFC 4647, 3.4: for zh-Hans-CN zh-Hans, else zh."""
    if not wanted:
        return None
    codes = {code.lower(): code for code in offered}
    subtags = wanted.lower().split("-")
    ranges = ("-".join(subtags[:count]) for count in range(len(subtags), 0, -1))
    return next((codes[each] for each in ranges if each in codes), None)


def meant_language(wanted: str, offered: Iterable[str]) -> str | None:
    """Find the offered code that something may mean that is no BCP-47 code, such as "zh_CN", "cn" or "english".

    Returns None if `wanted` is understood already, or means nothing known.
    """
    codes = list(offered)
    if not wanted or matched(wanted, codes):
        return None
    code = wanted.strip().lower().replace("_", "-")
    language, *rest = code.split("-")
    return matched("-".join([_MEANT.get(language, language), *rest]), codes)


@lru_cache(maxsize=1024)
def matched_language(language: str, script: str, offered: tuple[str, ...]) -> str | None:
    """Find the offered code of a detected language, one of its script, such as "Hant" or empty, before others."""
    found = matched(f"{language}-{script}" if script else language, offered)
    return found or next((code for code in offered if primary(code) == language), None)
