"""Placeholders that programs fill in: a translation without one of them would break the program."""

from __future__ import annotations

import re
from collections import Counter

_PLACEHOLDER = re.compile(
    r"%(?:\d++\$|\([^()\s]*+\))?[-+#0]*+(?:\d++|\*)?(?:\.\d++)?(?:hh?|ll?|[zjtL])?[diouxXeEfFgGcrsa@]"  # printf, Python
    r"|\$?\{\{?[\w.$:, -]*\}?\}"  # str.format, ICU, templates
)


def changed_placeholders(text: str, translation: str) -> str | None:
    """Return what is wrong with the placeholders of a translation, or None.

    Args:
        text: Text.
        translation: Its translation.
    """
    wanted, found = Counter(_PLACEHOLDER.findall(text)), Counter(_PLACEHOLDER.findall(translation))
    if lost := next(iter(wanted - found), None):
        return f"the translation lost the placeholder {lost}"
    if added := next(iter(found - wanted), None):
        return f"the translation added the placeholder {added}"
    return None
