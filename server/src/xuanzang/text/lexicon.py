"""Translations of first words: greetings, numbers, days, which a model trained on sentences gets wrong."""

from __future__ import annotations

from collections.abc import Mapping

from xuanzang.text.offsets import nfkc

MAX_SOURCE_CHARACTERS = 40
"""Maximum length of the source of an entry."""
# NFKC has made the other marks of Chinese one of these.
_CHINESE_MARKS = {"": "", ".": "。", "。": "。", "!": "！", "?": "？"}
_WESTERN_MARKS = {"": "", ".": ".", "。": ".", "!": "!", "?": "?"}
_PAIRS = frozenset(('""', "''", "“”", "‘’", "()", "**"))
"""Marks that may be around a sentence, and stay."""


class Lexicon:
    """Sentences of one to three words, each with its only translation. Immutable, so threads may share it."""

    def __init__(self, entries: Mapping[str, str], *, writes_chinese: bool) -> None:
        """Make a lexicon of sources and targets without final marks; `writes_chinese` chooses those of targets."""
        self._targets = {nfkc(source): target for source, target in entries.items()}
        self._folded = {source.casefold(): target for source, target in reversed(self._targets.items())}
        self._marks = _CHINESE_MARKS if writes_chinese else _WESTERN_MARKS

    def translation(self, sentence: str) -> str | None:
        """Return the translation of a sentence, with the marks that end it or are around it; None if it is not there.

        Case decides between entries that differ by case alone, such as "May" and "may".
        """
        if len(sentence) > 2 * MAX_SOURCE_CHARACTERS:
            return None
        text = nfkc(sentence).strip()
        if text[:1] + text[-1:] in _PAIRS and len(text) > len("()"):
            inner = self._translation(text[1:-1])
            return f"{text[0]}{inner}{text[-1]}" if inner else None
        return self._translation(text)

    def _translation(self, text: str) -> str | None:
        text = text.replace("’", "'")
        words = text.rstrip(".。!?").rstrip()
        target = self._targets.get(words) or self._folded.get(words.casefold())
        mark = self._marks.get(text[len(words) :].strip())
        if target is None or mark is None:
            return None
        return f"{target[:1].upper()}{target[1:]}{mark}" if mark else target
