"""Messages in the forms that programs have them: gettext, Android, iOS, Qt, Rails, i18next, FormatJS, games, mail.

⟦ and ⟧ enclose a span that must stay; ⟪ and ⟫ one that programs fill in by its place, so that its order must stay, too.
The sentences are our own.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_SPAN = re.compile("⟦(.*?)⟧|⟪(.*?)⟫", re.DOTALL)


class Form(NamedTuple):
    """A message, and what of it must stay."""

    text: str
    spans: tuple[str, ...]
    """In the order of the text."""
    ordered: tuple[str, ...]
    """Those of them whose order must stay."""

    def fault(self, translation: str) -> str | None:
        """Return what a translation lost, added or moved; None if all spans are in it."""
        for span in set(self.spans):
            others = [other for other in set(self.spans) if span in other and other != span]
            count, wanted = translation, self.text
            for other in sorted(others, key=len, reverse=True):
                count, wanted = count.replace(other, "\0"), wanted.replace(other, "\0")
            if count.count(span) != wanted.count(span):
                return f"{span!r} is there {count.count(span)} times, not {wanted.count(span)}"
        fields = re.compile("|".join(sorted(map(re.escape, set(self.ordered)), key=len, reverse=True)) or r"(?!)")
        if fields.findall(translation) != fields.findall(self.text):
            return f"{self.ordered} are in another order"
        return None


def _forms(language: str) -> tuple[Form, ...]:
    lines = (Path(__file__).parent / "texts" / f"message_forms.{language}.txt").read_text(encoding="utf-8")
    return tuple(
        Form(
            text=_SPAN.sub(lambda found: found[1] or found[2], line),
            spans=tuple(found[1] or found[2] for found in _SPAN.finditer(line)),
            ordered=tuple(found[2] for found in _SPAN.finditer(line) if found[2]),
        )
        for line in lines.strip().splitlines()
    )


ENGLISH_FORMS = _forms("en")
"""In English."""
CHINESE_FORMS = _forms("zh")
"""In Chinese."""
