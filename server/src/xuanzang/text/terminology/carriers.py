"""The form of a term in a sentence of the other language: with an article, in quotes, or unchanged.

A model copies the surroundings of a term. Chinese has no articles, so it writes none for "printer" in
请把 printer 关掉。, but keeps an article of its source. "The click" ruins a sentence where the term is a verb, and "my
the printer" one where it has a determiner. So an article is put only where the words around a term say that it is a
noun without determiner. An English name of several words may fall apart, as in "Let's talk about it tomorrow Xinhua
Dictionary.", and a Chinese name may go on, as 钉钉 in 请打开钉钉子。 In quotes a name stays unchanged; the translation
is given without them.
"""

from __future__ import annotations

import re

from xuanzang.text.offsets import Span

WRITTEN_QUOTES = re.compile('["“”「」]')
"""Characters that models write for a carrier's quotes."""
_QUOTES = re.compile('["＂“”„‟‘«»「」『』﹁﹂﹃﹄〝〞《》〈〉]')
_NAME = re.compile(r"[A-Z][\w'-]*(?: [A-Za-z'-]+)* [A-Z][A-Za-z'-]+", re.ASCII)
_NOUN = re.compile(r"(?:[\w.]+[ -])*[a-z]{2,}", re.ASCII)
_DETERMINED = re.compile(
    r"(?:a|an|the|this|that|these|those|my|your|his|her|its|our|their|some|any|no)\b", re.IGNORECASE
)
# Coverbs, and verbs of motion with their goal; not 不用 ("need not"), nor 一把, which counts.
_BEFORE = re.compile(r"(?:(?<![一二两三几这那每])把|(?<!不)用|利用|通过|从|[放走存装写加填输][进入到])$")
# Time, which is said of what happens.
_TIME = re.compile(r"(?:的?时|之?前|之?后|以[前后])")
_PLACE = re.compile(r"(?:上|里|中|内)")
# 正在 and 现在 are no places, nor is 在 without a place: 在跑步 is what somebody does.
_AT = re.compile(r"(?<![正现存所])在$")
_CLAUSE_BEGINS = re.compile(r"(?:^|[，。：；！？,.:;!?“\"（(、]\s*)$")
# Verbs and adverbs that follow a subject.
_PREDICATE = re.compile(
    r"需要|必须|应|可以|可能|会|能|将|已|不|没|未|无法|正在|也|都|又|太|很|是|有|在|坏|被|和|与|显示"
)
# Nouns with an owner or a number have a determiner.
_OF = re.compile(r"(?<![我你您他她它们己])的$")
_COUNTED = re.compile(r"[一二两三四五六七八九十几这那每某该此各哪本新][^，。；：、]{0,8}的$")
_NOUN_ENDS = re.compile(r"$|[，。；：、？！,.;:?!）)]|的|是|和|与|或|上|中|里|内|会|将|可|被|不|没|已|以")


def has_quotes(sentence: str) -> bool:
    """Return whether a sentence has quotes."""
    return bool(_QUOTES.search(sentence))


def as_read(sentence: str, place: Span, target: str, *, languages: tuple[str, str], may_quote: bool = True) -> str:
    """Return the form of a translation for its place in a sentence.

    Args:
        sentence: The sentence.
        place: Place of the term in it.
        target: Translation of the term.
        languages: Primary subtags of both sides.
        may_quote: Whether names may be put in quotes, which are dropped from the translation afterwards.
    """
    source = sentence[slice(*place)]
    may_quote = may_quote and not has_quotes(sentence)
    if languages == ("zh", "en"):
        if may_quote and _NAME.fullmatch(target):
            return f'"{target}"'
        return f"the {target}" if target != source and _needs_article(sentence, place, target) else target
    if languages == ("en", "zh"):
        return f"「{target}」" if may_quote and source != source.lower() else target
    return target


def _needs_article(sentence: str, place: Span, target: str) -> bool:
    if not _NOUN.fullmatch(target) or _DETERMINED.match(target):
        return False
    before, after = sentence[: place[0]].rstrip(), sentence[place[1] :].lstrip()
    if _BEFORE.search(before):
        return not _TIME.match(after)
    if _AT.search(before):
        return bool(_PLACE.match(after))
    if _OF.search(before):
        return not _COUNTED.search(before) and bool(_NOUN_ENDS.match(after))
    begins = _CLAUSE_BEGINS.search(before)
    return bool(begins and (_PREDICATE.match(after) or _PLACE.match(after)))
