"""Texts that formulas, tables, filters and pivot tables of a workbook look up: cells with them are left alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lxml import etree

from xuanzang.documents.formats.xml.trees import Element

_FORMULAS = frozenset(("f", "formula", "formula1", "formula2", "definedName", "calculatedColumnFormula"))
_NAMES = {"tableColumn": ("name", "totalsRowLabel"), "cacheField": ("name",)}
_CRITERIA = {
    "filter": ("val",),
    "customFilter": ("val",),
    "filter-condition": ("value",),
    "filter-set-item": ("value",),
}
_CONDITIONS = frozenset(("formula", "condition", "expression"))
"""Attributes of OpenDocument with formulas."""
_MATCHES = re.compile(r"\b(?:COUNT|SUM|AVERAGE|MAX|MIN)IFS?\s*\(|(?:MATCH|LOOKUP)\s*\(", re.IGNORECASE)
"""Functions whose strings may have wildcards."""
_LITERAL = re.compile(
    r"(?P<within>\b(?:SEARCH|FIND)B?\s*+\(\s*+|\b(?:LEFT|RIGHT|MID)B?\s*+\([^()\"]*+\)\s*+(?:=|<>)\s*+"
    r"|\b(?:SUBSTITUTE|TEXTBEFORE|TEXTAFTER)\s*+\([^()\",;]*+[,;]\s*+)?\"(?P<text>(?:[^\"]|\"\")*+)\"",
    re.IGNORECASE,
)
"""A string of a formula, and a function that compares it with a part of a text."""
_OPERATOR = re.compile(r"<>|[<>]=?|=")
_WILDCARD = re.compile(r"(?<!~)[*?]")
_ESCAPE = re.compile(r"~([*?~])")
_LINE = re.compile(r"_x[0-9A-Fa-f]{4}_|[\r\n\t]|\s{3,}")
"""Separators of the texts within a cell."""
_START, _END = "\x02", "\x03"
"""Characters before and behind a text, so that a fragment may be its beginning or its end."""
_LONGEST = 32
"""Characters of a fragment: of a longer one the beginning counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTexts:
    """Texts to leave alone."""

    texts: frozenset[str] = frozenset()
    """Whole texts, case-folded."""
    fragments: frozenset[str] = frozenset()
    """Parts of such texts between `_START` and `_END`, case-folded."""
    sizes: tuple[int, ...] = ()
    """Lengths of the parts."""

    def __contains__(self, text: str) -> bool:
        """Return whether a text stays."""
        text = text.strip().casefold()
        if text in self.texts:
            return True
        text = f"{_START}{text}{_END}"
        return any(text[at : at + size] in self.fragments for size in self.sizes for at in range(len(text) - size + 1))


NO_TEXTS = KeptTexts()


def kept_texts(roots: Iterable[Element]) -> KeptTexts:
    """Return the texts that a workbook or an OpenDocument spreadsheet finds others by.

    Args:
        roots: Roots of the parts.
    """
    texts: set[str] = set()
    fragments: set[str] = set()
    for text, is_part in (found for root in roots for found in _found(root)):
        if is_part:
            # A text has all parts of a criterion; the longest is in the fewest texts.
            part = max(map(_plain, _WILDCARD.split(text)), key=len)[:_LONGEST]
            fragments.update({part} if any(map(str.isalpha, part)) else ())
        else:
            texts.update(line.strip().casefold() for line in (text, _plain(text), *_LINE.split(text)))
    sizes = tuple(sorted(set(map(len, fragments))))
    return KeptTexts(texts=frozenset(texts), fragments=frozenset(fragments), sizes=sizes)


def _plain(criterion: str) -> str:
    return _ESCAPE.sub(r"\1", criterion).strip().casefold()


def _found(root: Element) -> Iterator[tuple[str, bool]]:
    """Yield texts that are looked up, and whether they may be parts of other texts."""
    # True after a formula whose results fill other cells, too.
    has_results = False
    for element in root.iter(etree.Element):
        local = etree.QName(element).localname
        if local in _FORMULAS:
            yield from _literals(element.text or "")
            has_results = has_results or element.get("t") in ("array", "dataTable")
        if has_results and local == "c" and element.get("t") == "str":
            yield element.findtext("{*}v") or "", False
        for key, value in element.attrib.items():
            name = key.rpartition("}")[2]
            if name in _NAMES.get(local, ()):
                yield value, False
            elif name in _CRITERIA.get(local, ()):
                yield from _criterion(value)
            elif key != name and (name in _CONDITIONS or (local, name) == ("condition", "value")):
                yield from _literals(value)


def _literals(formula: str) -> Iterator[tuple[str, bool]]:
    """Yield the strings of a formula; and of a list of choices in a string, each."""
    has_criteria = bool(_MATCHES.search(formula))
    for match in _LITERAL.finditer(formula):
        text = match["text"].replace('""', '"')
        if match["within"] and len(text) > 1:  # a letter is in too many texts
            yield text, True
        yield from _criterion(text) if has_criteria else ((text, False),)
        if "," in text:
            yield from ((choice, False) for choice in text.split(","))


def _criterion(text: str) -> Iterator[tuple[str, bool]]:
    """Yield a criterion, its text without a comparison, and if it has wildcards its parts."""
    yield text, False
    operator = _OPERATOR.match(text)
    bare = text[operator.end() :] if operator else text
    if operator:
        yield bare, False
    if _WILDCARD.search(bare):
        yield f"{_START}{bare}{_END}", True
