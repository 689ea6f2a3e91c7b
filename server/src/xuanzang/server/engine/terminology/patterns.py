"""Kinds of text that are not translated, as patterns that take time linear in the text.

No pattern can match a character in two ways, runs are taken whole (possessively), and none begins within a run that it
would have taken from the start.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from xuanzang.server.engine.types import ProtectedPattern

_URL = r"(?:https?://|ftp://|www\.)[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]*[A-Za-z0-9/_~=&#%+$-]"
_EMAIL = r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9_%+-][A-Za-z0-9._%+-]*+@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)+"
_CODE = (
    r"`[^`\n]{1,200}+`"
    r"|(?<![A-Za-z0-9_])(?:"
    r"[A-Za-z0-9]*+(?:_[A-Za-z0-9]++)++(?:\(\))?"  # max_size
    r"|[a-z][a-z0-9]*+(?:[A-Z][A-Za-z0-9]*+)(?:\(\))?"  # parseDate
    r"|[A-Za-z][A-Za-z0-9]*+\(\)"  # open()
    r"|(?<!-)--[a-z][a-z0-9]*+(?:-[a-z0-9]++)*+"  # --force
    r")(?![A-Za-z0-9_])"
)
_PLACEHOLDER = (
    r"\{\{[^{}\n]{1,64}+\}\}"
    r"|\$\{[^{}\n]{1,64}+\}"
    r"|\{[A-Za-z0-9_.:!-]{0,64}+\}"
    r"|%\([A-Za-z0-9_]{1,64}+\)[sdifr]"
    r"|%(?:[0-9]{1,2}\$)?[sdifxu](?![A-Za-z])"
)
_NUMBER = r"(?<![A-Za-z0-9_])(?<![0-9][.,:/])[0-9]++(?:[.,:/][0-9]++)*+%?(?![A-Za-z0-9_])"
_TAG = r"</?[A-Za-z][A-Za-z0-9-]*+(?:\s[^<>\n]{0,200}+)?/?>|&(?:[A-Za-z]{2,10}+|#[0-9]{1,6}+);"

PATTERNS: Mapping[ProtectedPattern, re.Pattern[str]] = MappingProxyType(
    {
        ProtectedPattern.URL: re.compile(_URL),
        ProtectedPattern.EMAIL: re.compile(_EMAIL),
        ProtectedPattern.CODE: re.compile(_CODE),
        ProtectedPattern.PLACEHOLDER: re.compile(_PLACEHOLDER),
        ProtectedPattern.NUMBER: re.compile(_NUMBER),
        ProtectedPattern.TAG: re.compile(_TAG),
    }
)
