"""Kinds of placeholders, and sentences to put them into."""

from __future__ import annotations

import re
from pathlib import Path


def _lines(name: str) -> tuple[str, ...]:
    return tuple((Path(__file__).parent / "texts" / f"{name}.txt").read_text(encoding="utf-8").splitlines())


KINDS = _lines("placeholder_kinds")
"""Placeholders of 129 kinds."""
ENGLISH = _lines("placeholder_places.en")
"""Sentences with a place for one."""
CHINESE = _lines("placeholder_places.zh")
"""Sentences with a place for one."""
_PAIR = re.compile(r"(<[^>]*>|\[b\])(x)(</[^>]*>|\[/b\])")


def is_kept(kind: str, text: str, translation: str) -> bool:
    """Return whether a translation has a placeholder as often as its text; of a pair of tags each tag."""
    pair = _PAIR.fullmatch(kind)
    parts = (pair[1], pair[3]) if pair else (kind,)
    return all(translation.count(part) == text.count(part) for part in parts)
