"""Languages of a model directory, as BCP-47 codes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from xuanzang.model.marian.directory import MarianDirectory

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
_TAG = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_TOKEN = re.compile(r">>(\w+)<<")


class Languages(NamedTuple):
    """Languages of a model."""

    sources: list[str]
    """BCP-47 codes."""
    targets: list[str]
    """BCP-47 codes; the first is what an export measures."""
    prefix_ids: dict[str, int]
    """Source id that asks for each target language; empty if the model has only one."""


def find_languages(
    directory: MarianDirectory,
    table: Sequence[str],
    faults: list[str],
    *,
    sources: Sequence[str] = (),
    targets: Sequence[str] = (),
) -> Languages:
    """Find the languages of a model.

    Args:
        directory: Model directory, whose tokenizer_config.json or README.md may name the languages.
        table: Source pieces by id; those such as ">>fra<<" ask for a target language.
        faults: List to which faults are added.
        sources: BCP-47 codes; none takes those that the directory names.
        targets: The same; CODE=NAME is the language that the pieces call NAME.
    """
    named = _named(directory)
    names = {found[1]: number for number, piece in enumerate(table) if (found := _TOKEN.fullmatch(piece))}
    prefix_ids = _prefix_ids(names, targets, faults) if names else {}
    languages = Languages(
        list(sources) or named[:1],
        list(prefix_ids) or [target.partition("=")[0] for target in targets] or named[1:],
        prefix_ids,
    )
    for side, codes in (("source", languages.sources), ("target", languages.targets)):
        if not codes:
            faults.append(f"the {side} language is not named, give it with --{side}-language")
        faults += [f"{code!r} is no BCP-47 code of a language" for code in codes if not language_code(code)]
    if len(languages.targets) > 1 and not names:
        faults.append("the vocabulary has no pieces such as >>fra<<, so there can be only one target language")
    return languages


def _named(directory: MarianDirectory) -> list[str]:
    """Return source and target language, empty if the directory does not name them."""
    names = [directory.tokenizer.get(f"{side}_lang") or "" for side in ("source", "target")]
    for pair in (names, directory.readme.languages):
        codes = [code for name in pair if (code := language_code(name))]
        if len(pair) == len(codes) == 2:
            return codes
    return []


def _prefix_ids(names: dict[str, int], targets: Sequence[str], faults: list[str]) -> dict[str, int]:
    """Return the ids of the pieces that ask for languages, by code."""
    codes: dict[str, str] = {}
    for name in names:
        if code := language_code(name):
            codes.setdefault(code, name)
    prefix_ids = {}
    for target in targets or codes:
        code, _, name = target.partition("=")
        name = name or codes.get(code, code)
        if name in names:
            prefix_ids[code] = names[name]
        else:
            faults.append(f"the vocabulary has no piece >>{name}<<")
    return prefix_ids


def language_code(name: str) -> str | None:
    """Return the BCP-47 code of a language, None for what is no code of one.

    Args:
        name: Code such as "zh", "zho", "cmn_Hans" or "pt_br".
    """
    primary, *rest = name.replace("_", "-").split("-")
    short = {pair[:3]: pair[3:] for pair in _SHORT.split()}
    code = "-".join([short.get(primary, primary), *map(_cased, rest)])
    return code if _TAG.fullmatch(code) else None


def _cased(subtag: str) -> str:
    """Write a script as Hans and a region as BR, as is usual."""
    return {2: subtag.upper(), 4: subtag.title()}.get(len(subtag), subtag)
