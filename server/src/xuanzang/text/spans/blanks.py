"""White space, invisible characters, symbols, and characters unknown to a model, which it loses or writes otherwise."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Set
from types import MappingProxyType

from xuanzang.text.catalogue import Found
from xuanzang.text.placeholder_patterns import Role
from xuanzang.text.scripts import LATIN, main_script, script_of
from xuanzang.text.sentences import is_copied, split_sentences

_WIDE = "\u00a0\u1680\u2000-\u200a\u202f\u205f"
_BREAKS = "\t\u3000"
_INVISIBLE = (
    "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff"
)
# Scripts whose letters these reshape, and pictures that they join.
_JOINED = "\u0600-\u08ff\u0900-\u1cff\ua840-\uabff\ufb50-\ufefc\u2190-\u2bff\U00010000-\U0001faff"
_JOINERS = "\u200c\u200d"
_PICTURE = "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
# Symbols, pictures, and characters that tokenisers write otherwise, such as the ² of m²; none that a language has as a
# punctuation mark or a word, as currencies do.
_SIGNS = (
    "\u00a6-\u00a9\u00ac\u00ae\u00b1-\u00b3\u00b5\u00b6\u00b9\u00bc-\u00be\u00d7\u00f7"  # ¦ to ©, ±, µ, ¼, ×
    "\u02c2-\u02c5\u02d2-\u02df\u02e5-\u02eb\u02ed\u02ef-\u02ff"  # modifiers such as ˅ and ˟
    "\u2020-\u2022\u2030\u2031\u203b\u203c\u2044\u2047-\u2049\u204b"  # †, •, ‰, ※, ‼, ⁄, ⁈
    "\u2070\u2074-\u208e\u2100-\u2bff"  # raised and lowered digits, letterlike signs, arrows, mathematics, shapes
    "\u3003\u3004\u3012\u3013\u3020\u3030\u3036\u3037\u303d-\u303f\u3200-\u33ff"  # 〃, 〒, 〽, ㈱, ㎏
    "\ufffc\ufffd\U0001f000-\U0001faff"  # objects, emoji
)
_RAISED = "\u00b2\u00b3\u00b9\u2070\u2074-\u207f"
_LOWERED = "\u2080-\u208e"
_SIGN = (
    "[\u00b5\u03bc][A-Za-z]{0,2}(?![A-Za-z])"  # µm
    f"|(?<![A-Za-z])[A-Za-z]{{1,3}}[{_RAISED}]++(?![A-Za-z])"  # m²
    f"|(?<![A-Za-z0-9])[A-Za-z0-9]{{1,16}}[{_LOWERED}][A-Za-z0-9{_RAISED}{_LOWERED}]*+"  # H₂O
    # After a numeral the circle is a zero.
    f"|(?<![〇○零一二三四五六七八九])(?:[{_SIGNS}](?:\ufe0f|\u200d(?=[{_SIGNS}]))*+)++"
)
# Letters of alphabets and syllabaries other than the Latin one.
_ALPHABETS = (
    "\u0370-\u1cff\u1f00-\u1fff\u2c00-\u2dff\u3040-\u30fa\u30fc-\u318f\ua4d0-\uabff\uac00-\ud7ff"
    "\ufb13-\ufdff\ufe70-\ufefc"
)
_FOREIGN = re.compile(rf"[{_ALPHABETS}]{{2,}}+(?:[ -][{_ALPHABETS}]{{2,}}+)*+")
# Characters of a word in Latin letters, or of a number.
_IN_WORD = "(?:[A-Za-z0-9\u00c0-\u024f\u1e00-\u1eff]|[.,](?=[0-9]))"
# What makes another number of the digits before it, so that these are no amount of their own.
_SCALE = re.compile(r"[0-9](?= ?(?:hundred|thousand|[mbtr]{1,2}illion|[十百千万萬亿億]))")
_MAX_BEFORE = 32
_WORD_BEFORE = re.compile(f"{_IN_WORD}{{1,{_MAX_BEFORE}}}+$")
BRACKETS: Mapping[str, str] = MappingProxyType(
    dict(zip("〈《「『【〔〖〘〚⟨⟪⦅⁅❨❬❲", "〉》」』】〕〗〙〛⟩⟫⦆⁆❩❭❳", strict=True))
)
"""Closing brackets by their opening ones; the vocabularies of many models lack some of them."""
_OPENING, _CLOSING = "".join(BRACKETS), "".join(BRACKETS.values())
_LABEL = re.compile(r"[【〖〔][^【】〖〗〔〕]*+([】〗〕])(?=.*\w)", re.DOTALL)
_ODD = re.compile(f"[{_WIDE}{_BREAKS}{_INVISIBLE}{_JOINERS}{_SIGNS}{_OPENING}{_CLOSING}\u03bc]")
_BLANKS = re.compile(
    f"(?P<picture>(?:{_PICTURE}[\U0001f3fb-\U0001f3ff]?|[0-9#*](?=\ufe0f\u20e3))\ufe0f\u20e3?"
    f"(?:\u200d{_PICTURE}[\U0001f3fb-\U0001f3ff\ufe0f]{{0,2}}){{0,8}})"
    f"|(?P<space>(?<![\n\r {_WIDE}{_BREAKS}])(?:[ {_WIDE}{_BREAKS}]{{2,}}+|[{_WIDE}{_BREAKS}])(?![\n\r]))"
    f"|(?P<open>[{_OPENING}])|(?P<close>[{_CLOSING}])"
    f"|(?P<sign>{_SIGN})"
    f"|(?P<point>[{_INVISIBLE}]+|(?<![{_JOINED}\ufe0f])[{_JOINERS}]+(?![{_JOINED}]))"
)
# Between the cells of a table, or the parts of a title.
_BAR = re.compile(r"(?<!\S)\|(?!\S)")
_BRACKET_KINDS = frozenset(("Ps", "Pe", "Pi", "Pf"))
_ZERO, _KNOWN_ZERO = "〇", "零"
_NONE: Mapping[str, str] = MappingProxyType({})
_ROLES = {"sign": Role.SIGN, "open": Role.OPEN, "close": Role.CLOSE}
_LONG = 3
_ENDS = ("", *".!?;。！？；…”’\"')]")


def has_blanks(text: str) -> bool:
    """Return whether a text may have white space that is more than a space, invisible characters, symbols, or bars."""
    return "  " in text or "|" in text or _ODD.search(text) is not None


def blanks(text: str) -> Iterator[Found]:
    """Find them within the sentences of a text; between sentences white space stays anyway."""
    if not has_blanks(text):
        return
    yield from (Found(*bar.span(), Role.BREAK) for bar in _BAR.finditer(text))
    start = 0
    for part in split_sentences(text):
        if not is_copied(part):
            label = _LABEL.match(part)
            ends = (start, start + label.start(1)) if label else ()
            for span in _within(part, start):
                # A label, as in 【Notice】, is no part of the sentence behind it.
                yield span._replace(role=Role.BREAK) if span.start in ends else span
        start += len(part)


def blanks_of_markup(text: str) -> Iterator[Found]:
    """Find them in text between tags, where none ends a sentence, and spaces between sentences are formatting."""
    if has_blanks(text):
        for span in _within(text, 0):
            is_between = not text[span.start : span.end].strip(" ") and text[: span.start][-1:] in _ENDS
            if not is_between:
                yield span._replace(role=Role.SPACE) if span.role is Role.BREAK else span


def has_odd_words(text: str) -> bool:
    """Return whether a text has words in an alphabet that `foreign_words` would find for some model."""
    return not text.isascii() and _FOREIGN.search(text) is not None


def foreign_words(text: str, scripts: Set[str]) -> Iterator[Found]:
    """Find words in some scripts.

    Args:
        text: A text.
        scripts: Scripts that no language of the model has.
    """
    found = (match for match in _FOREIGN.finditer(text) if script_of(match[0][0]) in scripts)
    yield from (Found(*match.span(), Role.VALUE) for match in found)


def unknown_characters(text: str, knows: Callable[[str], bool], *, with_letters: bool) -> Mapping[str, str]:
    """Return the characters of a text that a vocabulary lacks, each with a character to read for it, or nothing.

    In a text in Latin letters that is the letter without its accent, so that loan words are translated; for 〇 it is
    the other zero. A text that has no letters but such ones is of another language, and is left to the model.

    Args:
        text: A text.
        knows: Whether the vocabulary has the characters of a text.
        with_letters: True for letters, too; False only for currencies and other symbols and numerals.
    """
    if text.isascii() or knows(text):
        return _NONE
    characters = set(text)
    kinds = "LNPS" if with_letters else "NS"
    unknown = {each for each in characters if _is_carried(each, kinds) and not knows(each)}
    if not unknown or not any(map(str.isalpha, characters - unknown)):
        return _NONE
    is_latin = main_script(text) == LATIN
    bases = (unicodedata.normalize("NFD", each)[0] if is_latin else "" for each in unknown)
    read = {each: base if base.isascii() else "" for each, base in zip(unknown, bases, strict=True)}
    return read | {_ZERO: _KNOWN_ZERO} if _ZERO in unknown and knows(_KNOWN_ZERO) else read


def unknown_words(text: str, unknown: str) -> Iterator[Found]:
    """Find some characters, each with the word, the name or the amount that it is in."""
    if not unknown:
        return
    place = 0
    for match in re.finditer(f"[{re.escape(unknown)}](?:[{re.escape(unknown)}]|{_IN_WORD})*+", text):
        before = _WORD_BEFORE.search(text[max(place, match.start() - _MAX_BEFORE) : match.start()])
        start, place = match.start() - len(before[0] if before else ""), match.end()
        if start + 1 < place and unicodedata.category(text[start]) == "Sc" and _SCALE.match(text, place - 1):
            # The model reads 3.5 million, and only the sign before it is carried.
            place = start + 1
        kinds = {unicodedata.category(each) for each in text[start:place]}
        is_word = any(kind[0] in "LNS" for kind in kinds)
        yield Found(start, place, Role.VALUE if is_word else Role.POINT if kinds <= _BRACKET_KINDS else Role.SIGN)


def _is_carried(character: str, kinds: str) -> bool:
    """Return whether no other pattern of this module finds a character, which is no mark of another one."""
    return unicodedata.category(character)[0] in kinds and not character.isascii() and not _ODD.match(character)


def _within(sentence: str, offset: int) -> Iterator[Found]:
    for match in _BLANKS.finditer(sentence):
        start, end = match.span()
        role = _ROLES.get(match.lastgroup or "", Role.POINT)
        if match.lastgroup == "space":
            is_column = end - start >= _LONG or any(mark in match[0] for mark in _BREAKS)
            role = Role.BREAK if is_column else Role.SPACE
        yield Found(offset + start, offset + end, role)
