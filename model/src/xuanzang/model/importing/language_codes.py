"""Codes of languages as BCP-47 writes them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

# ISO 639-3 with the ISO 639-1 code that BCP-47 wants in its place. Mandarin is commonly called "zh".
_SHORT = (
    "aaraa abkab afraf akaak amham araar argan asmas avaav aveae aymay azeaz bakba bambm belbe benbn bisbi bodbo bosbs "
    "brebr bulbg catca cescs chach chece chucu chvcv cmnzh corkw cosco crecr cymcy danda deude divdv dzodz ellel engen "
    "epoeo estet euseu eweee faofo fasfa fijfj finfi frafr fryfy fulff glagd glega glggl glvgv grngn gujgu hatht hauha "
    "hebhe herhz hinhi hmoho hrvhr hunhu hyehy iboig idoio iiiii ikuiu ileie inaia indid ipkik islis itait javjv jpnja "
    "kalkl kankn kasks katka kaukr kazkk khmkm kikki kinrw kirky komkv konkg korko kuakj kurku laolo latla lavlv limli "
    "linln litlt ltzlb lublu luglg mahmh malml marmr mkdmk mlgmg mltmt monmn mrimi msams myamy nauna navnv nblnr ndend "
    "ndong nepne nldnl nnonn nobnb norno nyany ocioc ojioj orior ormom ossos panpa plipi polpl porpt pusps quequ rohrm "
    "ronro runrn rusru sagsg sansa sinsi slksk slvsl smese smosm snasn sndsd somso sotst spaes sqisq srdsc srpsr sswss "
    "sunsu swasw swesv tahty tamta tattt telte tgktg tgltl thath tirti tonto tsntn tsots tuktk turtr twitw uigug ukruk "
    "urdur uzbuz venve vievi volvo wlnwa wolwo xhoxh yidyi yoryo zhaza zhozh zulzu"
)
# Of languages that NLLB-200 has one member of, the member and the code that people use.
_USUAL = {
    "als": "sq", "arb": "ar", "ayr": "ay", "azj": "az", "fuv": "ff", "gaz": "om", "khk": "mn", "kmr": "ku", "lvs": "lv",
    "npi": "ne", "ory": "or", "pbt": "ps", "pes": "fa", "plt": "mg", "quy": "qu", "swh": "sw", "uzn": "uz", "ydd": "yi",
    "zsm": "ms", "ns": "nso",
}  # fmt: skip
# Other codes that request a language in several scripts.
_ALIASES = {"zh-Hans": ("zh",), "zh-Hant": ("zh-TW", "zh-HK", "zh-MO")}
_TAG = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")


def language_code(name: str) -> str | None:
    """Return the BCP-47 code of a language, None if it is not a code.

    Args:
        name: Code such as "zh", "zho", "cmn_Hans" or "pt_br".
    """
    primary, *rest = name.replace("_", "-").split("-")
    short = {pair[:3]: pair[3:] for pair in _SHORT.split()}
    code = "-".join([short.get(primary, primary), *map(_cased, rest)])
    return code if _TAG.fullmatch(code) else None


def codes_of(names: Mapping[str, int]) -> dict[str, int]:
    """Give the languages of a model their BCP-47 codes: without script or region, unless the model has several.

    Args:
        names: Ids by name, such as "zho_Hans", "zh" or "zh_CN".

    Returns:
        Ids by code. A Chinese in both scripts has more codes: "zh" is simplified, "zh-TW" traditional.
    """
    full = {code: number for name, number in names.items() if (code := _usual_code(name))}
    counts = Counter(code.partition("-")[0] for code in full)
    codes: dict[str, int] = {}
    for code, number in full.items():
        primary = code.partition("-")[0]
        codes.setdefault(primary if counts[primary] == 1 else code, number)
    others = {alias: codes[code] for code, aliases in _ALIASES.items() if code in codes for alias in aliases}
    return codes | {alias: number for alias, number in others.items() if alias not in codes}


def _usual_code(name: str) -> str | None:
    primary, *rest = name.split("_")
    return language_code("_".join([_USUAL.get(primary, primary), *rest]))


def _cased(subtag: str) -> str:
    """Write a script as Hans and a region as BR, as is usual."""
    return {2: subtag.upper(), 4: subtag.title()}.get(len(subtag), subtag)
