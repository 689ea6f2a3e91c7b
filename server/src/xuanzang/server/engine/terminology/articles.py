"""English nouns in Chinese sentences: where one needs an article.

Chinese has no articles, and a model that copies "printer" from 请把 printer 关掉。 writes none. It keeps one that is in
its source. But "the click" ruins a sentence where the term is a verb, and "my the printer" one where it has a
determiner. So an article is put only where the words around a term say that it is a noun without determiner.
"""

from __future__ import annotations

import re

from xuanzang.server.engine.text.offsets import Span

ARTICLE = "the"
_COMMON_NOUN = re.compile(r"[a-z]+(?:[ -][a-z]+)*")
_DETERMINED = re.compile(r"(?:a|an|the|this|that|these|those|my|your|his|her|its|our|their|some|any|no)\b")
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


def needs_article(sentence: str, place: Span, target: str) -> bool:
    """Return whether an English translation put into a place of a Chinese sentence needs an article before it."""
    if not _COMMON_NOUN.fullmatch(target) or _DETERMINED.match(target):
        return False
    before, after = sentence[: place[0]].rstrip(), sentence[place[1] :].lstrip()
    if _BEFORE.search(before):
        return not _TIME.match(after)
    if _AT.search(before):
        return bool(_PLACE.match(after))
    begins = _CLAUSE_BEGINS.search(before)
    return bool(begins and (_PREDICATE.match(after) or _PLACE.match(after)))
