"""Spans that a translation must keep unchanged: placeholders, markup, links, paths, names, numbers."""

from __future__ import annotations

import re
from collections import Counter

_KINDS = {
    "link": r"(?:https?|ftp)://[^\s<>\"'`)\]}]*[\w/]",
    "address": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "tag": r"</?[A-Za-z][^<>]*>",
    "code": r"`[!-_a-~]+`",
    "braces": r"\$?\{\{?[\w.:$-]*\}?\}|\$[A-Za-z_]\w*",
    "format": r"%\(\w+\)[sdif]|%(?:\d+\$)?[-+0#]*\d*(?:\.\d+)?l?[sdifuxX](?![A-Za-z])",
    "path": r"(?<![\w/.])(?:~|\.{1,2})?(?:/[\w.-]*\w)+/?|[A-Z]:(?:\\[\w.-]+)+",
    "flag": r"(?<![\w-])--[A-Za-z][\w-]*",
    "name": r"[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w*|[A-Z]{2,}\d*(?!\w)|[\w-]+\.(?:[a-z]{2,4}|[ch])(?!\w)",
    "number": r"\d+(?:[.,:/-]\d+)*",
}
# ASCII, or \w would take Chinese into a name that stands beside it.
_SPAN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()), re.ASCII)


def copied_spans(text: str) -> list[str]:
    """Return the parts of a sentence that its translation must hold unchanged, in order.

    Args:
        text: Normalised text; otherwise full-width digits would be expected.
    """
    return [match.group() for match in _SPAN.finditer(text)]


def kept_spans(source: str, translation: str) -> tuple[int, int]:
    """Count the spans of a source, and those that its translation holds at least as often.

    Returns:
        Kept spans and all spans.
    """
    wanted = Counter(copied_spans(source))
    return sum(min(count, translation.count(span)) for span, count in wanted.items()), wanted.total()
