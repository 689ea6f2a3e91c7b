"""Languages: their English names, and the pairs that the server translates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from xuanzang.client import Model

_TABLE = """
af Afrikaans, am Amharic, ar Arabic, az Azerbaijani, be Belarusian, bg Bulgarian, bn Bengali, bs Bosnian, ca Catalan,
cs Czech, cy Welsh, da Danish, de German, el Greek, en English, eo Esperanto, es Spanish, et Estonian, eu Basque,
fa Persian, fi Finnish, fr French, ga Irish, gl Galician, gu Gujarati, he Hebrew, hi Hindi, hr Croatian, hu Hungarian,
hy Armenian, id Indonesian, is Icelandic, it Italian, ja Japanese, ka Georgian, kk Kazakh, km Khmer, kn Kannada,
ko Korean, ku Kurdish, ky Kyrgyz, la Latin, lb Luxembourgish, lo Lao, lt Lithuanian, lv Latvian, mg Malagasy,
mk Macedonian, ml Malayalam, mn Mongolian, mr Marathi, ms Malay, mt Maltese, my Burmese, nb Norwegian Bokmål,
ne Nepali, nl Dutch, nn Norwegian Nynorsk, no Norwegian, or Odia, pa Punjabi, pl Polish, ps Pashto, pt Portuguese,
ro Romanian, ru Russian, sd Sindhi, si Sinhala, sk Slovak, sl Slovenian, so Somali, sq Albanian, sr Serbian,
su Sundanese, sv Swedish, sw Swahili, ta Tamil, te Telugu, tg Tajik, th Thai, tl Tagalog, tr Turkish, tt Tatar,
ug Uyghur, uk Ukrainian, ur Urdu, uz Uzbek, vi Vietnamese, xh Xhosa, yi Yiddish, yo Yoruba, yue Cantonese, zh Chinese,
zu Zulu, en-gb English (British), en-us English (American), pt-br Portuguese (Brazilian), pt-pt Portuguese (European),
zh-hans Chinese (simplified), zh-hant Chinese (traditional)
"""


def _read_table(table: str) -> Mapping[str, str]:
    rows = (row.strip().partition(" ") for row in table.replace("\n", " ").split(","))
    return MappingProxyType({code: name for code, _, name in rows})


_NAMES = _read_table(_TABLE)
_OWN_NAMES = _read_table("""
ar العربية, bg Български, bn বাংলা, ca Català, cs Čeština, da Dansk, de Deutsch, el Ελληνικά, en English, es Español,
et Eesti, fa فارسی, fi Suomi, fr Français, he עברית, hi हिन्दी, hr Hrvatski, hu Magyar, id Bahasa Indonesia, it Italiano,
ja 日本語, kk Қазақша, km ភាសាខ្មែរ, ko 한국어, lo ລາວ, lt Lietuvių, lv Latviešu, mn Монгол, ms Bahasa Melayu, my မြန်မာ,
nb Norsk bokmål, nl Nederlands, nn Norsk nynorsk, pl Polski, pt Português, ro Română, ru Русский, sk Slovenčina,
sl Slovenščina, sr Српски, sv Svenska, sw Kiswahili, ta தமிழ், te తెలుగు, th ไทย, tr Türkçe, uk Українська, ur اردو,
uz Oʻzbek, vi Tiếng Việt, yue 粤语, zh 中文, zh-hans 简体中文, zh-hant 繁體中文
""")
# In Chinese, as programs and prompts write them; hcfy's have a script in brackets.
_CHINESE_NAMES = {
    name: code
    for code, name in (
        tuple(row.split())
        for row in """
ar 阿拉伯语, cs 捷克语, da 丹麦语, de 德语, de 德文, el 希腊语, en 英语, en 英文, es 西班牙语, fi 芬兰语,
fr 法语, fr 法文, he 希伯来语, hi 印地语, hu 匈牙利语, id 印尼语, id 印度尼西亚语, it 意大利语, ja 日语,
ja 日文, ko 韩语, ko 韩文, ms 马来语, nl 荷兰语, no 挪威语, pl 波兰语, pt 葡萄牙语, ro 罗马尼亚语, ru 俄语,
ru 俄文, sv 瑞典语, th 泰语, tr 土耳其语, uk 乌克兰语, vi 越南语, yue 粤语, zh 中文, zh 汉语,
zh-hans 简体, zh-hans 简体中文, zh-hans 中文(简体), zh-hant 繁体, zh-hant 繁体中文, zh-hant 繁體中文,
zh-hant 中文(繁体)
""".replace("\n", " ").split(",")
    )
}
_CODES: Mapping[str, str] = MappingProxyType(
    {
        **{name.lower(): code for names in (_OWN_NAMES, _NAMES) for code, name in names.items()},
        **_CHINESE_NAMES,
        **dict.fromkeys(("simplified chinese", "chinese (simplified)", "chinese simplified"), "zh-hans"),
        **dict.fromkeys(("traditional chinese", "chinese (traditional)", "chinese traditional"), "zh-hant"),
        **dict.fromkeys(("mandarin", "mandarin chinese"), "zh"),
        **dict.fromkeys(("american english", "british english"), "en"),
    }
)
_LONE_CODE = re.compile(r"[a-z]{2,3}(?:-[a-z]{2,4})?", re.IGNORECASE)
# Codes that are words of English, or of prompts.
_WORDS = frozenset({"am", "an", "as", "be", "el", "he", "id", "is", "it", "la", "lo", "my", "no", "or", "so", "to"})


_SAME: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("zh-tw", "zh-hk", "zh-mo", "zt"), ("zh-Hant", "zh-TW", "zh-HK")),
        **dict.fromkeys(("zh-cn", "zh-sg", "zh-hans"), ("zh-Hans", "zh")),
        "zh-hant": ("zh-TW", "zh-HK"),
        "iw": ("he",),
        "jw": ("jv",),
        "no": ("nb",),
        "nb": ("no",),
        "tl": ("fil",),
        "fil": ("tl",),
        "pb": ("pt-BR", "pt"),
    }
)
"""Codes, in lower case, that mean the same as others, which a server may have instead."""


def has_synonyms(code: str | None) -> bool:
    """Return whether there are other codes of the same language.

    Args:
        code: Code of a language in any API; None: there are none.
    """
    return code is not None and code.lower() in _SAME


def served_code(code: str, served: Iterable[str]) -> str:
    """Return the server's code of a language: the same one or a synonym.

    Args:
        code: Code of a language in any API, such as "zh-TW" or LibreTranslate's "zt".
    """
    offered = {each.lower(): each for each in served}
    wanted = (code, *_SAME.get(code.lower(), ()))
    return next((offered[each.lower()] for each in wanted if each.lower() in offered), code)


def name_of(code: str) -> str:
    """Return the English name of a language, or its code if it is in no table.

    Args:
        code: BCP-47 code.
    """
    lower = code.lower()
    return _NAMES.get(lower) or _NAMES.get(base(lower)) or code


def own_name_of(code: str) -> str:
    """Return the name of a language in this language or, if it is in no table, in English.

    Args:
        code: BCP-47 code.
    """
    lower = code.lower()
    return _OWN_NAMES.get(lower) or _OWN_NAMES.get(base(lower)) or name_of(code)


def chinese_name_of(code: str) -> str:
    """Return the Chinese name of a language, with its script in brackets, or its code if it is in no table.

    Args:
        code: BCP-47 code.
    """
    lower = "zh-hans" if code.lower() == "zh" else code.lower()
    names = [name for name, each in _CHINESE_NAMES.items() if each in (lower, base(lower))]
    return next((name for name in names if "(" in name), names[0]) if names else code


def unless_automatic(code: str | None) -> str | None:
    """Return the code of a source language; None: the server detects it.

    Args:
        code: Code in an API; "auto" and nothing stand for detection.
    """
    return None if code is None or code.lower() in ("", "auto") else code


def code_of(named: str, served: Iterable[str]) -> str:
    """Return the code of a language from its code or name; anything else comes back unchanged.

    Args:
        named: Code in any API, or a name in English or in the language, such as "Chinese" and "中文".
    """
    return served_code(_CODES.get(named.strip().lower(), named.strip()), served)


def known_code(named: str) -> str | None:
    """Return the code of a language that is given by a name or a code; None if it is in no table.

    Args:
        named: Such as "Simplified Chinese", "英文" or "zh-CN".
    """
    name = named.strip().lower().replace("（", "(").replace("）", ")")
    if name in _CODES:
        return _CODES[name]
    is_code = _LONE_CODE.fullmatch(name) and name not in _WORDS and (name in _NAMES or base(name) in _NAMES)
    return named.strip() if is_code else None


def base(code: str) -> str:
    """Return the language of a code, in lower case and without region and script.

    Args:
        code: BCP-47 code such as "EN-GB".
    """
    return code.partition("-")[0].lower()


def targets_by_source(models: Iterable[Model]) -> dict[str, list[str]]:
    """Return the languages that each source language is translated into, by one model or two, both in order."""
    listed = list(models)
    pairs = _direct(listed)
    for source, targets in _through(listed).items():
        pairs.setdefault(source, set()).update(targets)
    return {source: sorted(pairs[source]) for source in sorted(pairs)}


def pivots(models: Iterable[Model]) -> dict[tuple[str, str], str]:
    """Return the language between the two models, by the pairs that no single model translates, in order."""
    listed = list(models)
    direct, between = _direct(listed), dict[tuple[str, str], str]()
    for model in listed:
        for source, targets in _through([model]).items():
            for target in targets - direct.get(source, set()):
                between.setdefault((source, target), model.pivot_language)
    return dict(sorted(between.items()))


def pivoted_targets(models: Iterable[Model]) -> dict[str, list[str]]:
    """Return the languages that each source language is translated into by two models only, both in order."""
    targets: dict[str, list[str]] = {}
    for source, target in pivots(models):
        targets.setdefault(source, []).append(target)
    return targets


def listed_pivots(name: str, codes: Iterable[str]) -> dict[str, list[str]]:
    """Return the field of a language's entry for the other ends of its pivoted pairs; no field if it has none.

    Args:
        name: "pivoted_targets" or "pivoted_sources".
        codes: Languages in the spelling of the API.
    """
    listed = list(codes)
    return {name: listed} if listed else {}


def _direct(models: Iterable[Model]) -> dict[str, set[str]]:
    pairs: dict[str, set[str]] = {}
    for model in models:
        for source in model.source_languages:
            pairs.setdefault(source, set()).update(set(model.target_languages) - {source})
    return pairs


def _through(models: Iterable[Model]) -> dict[str, set[str]]:
    """Return the targets of the pairs that two models translate, some of which one may translate as well."""
    pairs: dict[str, set[str]] = {}
    for model in models:
        ends = {base(model.pivot_language)}
        for source in model.pivoted_source_languages:
            targets = {each for each in model.target_languages if base(each) not in ends | {base(source)}}
            pairs.setdefault(source, set()).update(targets)
    return pairs


def sources_into(target: str, models: Iterable[Model]) -> list[str]:
    """Return the languages that are translated into another one, in order.

    Args:
        target: BCP-47 code; "en-GB" is found as "en", too.
    """
    return [
        source
        for source, targets in targets_by_source(models).items()
        if any(_is_part_of(target, each) for each in targets)
    ]


def _is_part_of(wanted: str, served: str) -> bool:
    return f"{wanted.lower()}-".startswith(f"{served.lower()}-")


def is_served(code: str, served: Iterable[str]) -> bool:
    """Return whether a language is among those of the server, or a part of one.

    Args:
        code: Code of a language in any API.
    """
    offered = list(served)
    return any(_is_part_of(served_code(code, offered), each) for each in offered)


def source_for(detected: str, sources: Iterable[str]) -> str | None:
    """Return the source language that a detected one is, or None.

    Args:
        detected: BCP-47 code such as "zh-Hans".
        sources: Languages to choose among; that of the same script is preferred.
    """
    offered = list(sources)
    exact = [each for each in offered if _is_part_of(detected, each)]
    # "zh" is what the detector says of characters that are the same in "zh-Hans" and "zh-Hant".
    loose = [each for each in offered if base(each) == base(detected)]
    return next(iter([*exact, *loose]), None)
