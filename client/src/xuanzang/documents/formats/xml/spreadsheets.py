"""Texts that formulas, tables, filters and pivot tables of a workbook look up: cells with them are left alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lxml import etree

from xuanzang.documents.formats.xml.trees import Element

_FORMULAS = frozenset(("f", "formula", "formula1", "formula2", "definedName", "calculatedColumnFormula"))
_NAMES = {"tableColumn": "name", "cacheField": "name", "filter": "val", "customFilter": "val"}
_LITERAL = re.compile(r'"((?:[^"]|"")*+)"')
_LINE = re.compile(r"_x[0-9A-Fa-f]{4}_|[\r\n\t]|\s{3,}")
"""Separators of the texts within a cell."""


def kept_texts(roots: Iterable[Element]) -> frozenset[str]:
    """Return the texts, case-folded.

    Args:
        roots: Roots of the parts of the workbook.
    """
    found = (text for root in roots for text in _texts(root))
    return frozenset(line.strip().casefold() for text in found for line in (text, *_LINE.split(text)))


def _texts(root: Element) -> Iterator[str]:
    for element in root.iter(*(f"{{*}}{name}" for name in (*_FORMULAS, *_NAMES))):
        local = etree.QName(element).localname
        if local in _FORMULAS:
            yield from literals(element.text or "")
        elif name := element.get(_NAMES[local]):
            yield name


def literals(formula: str) -> Iterator[str]:
    """Yield the strings of a formula; and of a list of choices in a string, each."""
    for match in _LITERAL.finditer(formula):
        text = match[1].replace('""', '"')
        yield text
        if "," in text:
            yield from text.split(",")
