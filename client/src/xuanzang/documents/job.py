"""The translation of a document by any translator: its requests, and the use of the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from xuanzang.documents.formats.blocks import tag_fault
from xuanzang.documents.formats.messages.printf import order_fault
from xuanzang.documents.memory import TranslationMemory
from xuanzang.documents.opening import DocumentTexts, Refusal, WrittenFile

_SAVE_AFTER = 64  # translations

OnProgress = Callable[[int, int], None]
"""Receiver of the number of texts done and of all texts."""

KeyFunction = Callable[[str], bytes]
"""Function from a text to its key in a memory: equal if the same text would get the same translation."""


class Copied(Enum):
    """Reason why a translation is the text itself."""

    NOTHING_TO_TRANSLATE = auto()
    IN_TARGET_LANGUAGE = auto()
    """It is in the target language already."""
    UNSERVED_LANGUAGE = auto()
    """It is in a language that nothing here translates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer of a translator for a text: its translation, or why there is none."""

    translation: str = ""
    """The translation; of a document whose texts are HTML, with their tags."""
    refusal: str | None = None
    """Reason why the text is unchanged; None: there is a translation."""
    copied: Copied | None = None
    """Reason why the translation is the text; None: it was translated."""
    lost_placeholders: tuple[str, ...] = ()
    """Placeholders of the text that the translation lacks or changes; with any the text stays."""
    may_be_kept: bool = True
    """True if a later run may find the translation in a memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSummary:
    """Summary of the work on a document."""

    units: int
    """Texts in the document, equal ones counted as often as they occur."""
    asked: int
    """Different texts that the translator was asked for."""
    remembered: int
    """Different texts found in the translation memory."""
    characters: int
    """Characters of the texts that the translator was asked for."""
    sentences: int
    """Sentences of these texts, as a server counts them; 0 if it does not."""
    refusals: tuple[Refusal, ...]
    """Different texts without a translation."""
    passed_through: int = 0
    """Different texts in languages that no model translates, which are unchanged with
    `pass_through_unserved`."""
    copied: int = 0
    """Different texts with nothing to translate."""
    in_target_language: int = 0
    """Those of them that are in the target language already."""

    def with_refusals_of(self, written: WrittenFile) -> DocumentSummary:
        """Return the summary with the texts whose translations could not be written."""
        return replace(self, refusals=(*self.refusals, *written.refusals))


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedTexts:
    """Translations of the texts of a document."""

    translations: Mapping[str, str]
    """Translations by text, except of unchanged texts."""
    summary: DocumentSummary
    """Summary of the work."""


class Job:
    """The translation of one document: `pending` says what to ask for, `record` takes each answer.

    Args:
        memory: Memory to look in and to add to; None: none.
        key: Function from a text to its key in the memory; None: nothing can be kept.

    Raises:
        ValueError: The memory is damaged.
    """

    def __init__(
        self,
        texts: DocumentTexts,
        *,
        memory: TranslationMemory | None = None,
        key: KeyFunction | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._texts = texts
        self._ordered = frozenset(texts.ordered)
        self._memory, self._key = memory, key
        self._on_progress = on_progress
        self._translations = self._remembered()
        self._remembered_texts = len(self._translations)
        self._unsaved: dict[bytes, str] = {}
        self._refusals: list[Refusal] = []
        self._copies: list[Copied] = []
        self._total = sum(texts.counts.values())
        self._done = sum(self._texts.counts[text] for text in self._translations)
        self.pending = [text for text in self._texts.places if text not in self._translations]
        """Texts to ask for, each once, in the order of the document."""
        self._report()

    def record(self, text: str, answer: Answer) -> bool:
        """Record the answer for a text; a translation that breaks the document counts as refused.

        Returns:
            True if `save` is due.
        """
        self._done += self._texts.counts[text]
        fault = self._fault(text, answer) if answer.refusal is None else answer.refusal
        if fault is not None:
            self._refusals.append(Refusal(where=self._texts.places[text], message=fault))
        else:
            self._translations[text] = answer.translation
            self._copies += [answer.copied] if answer.copied else []
            if self._memory and self._key and answer.may_be_kept:
                self._unsaved[self._key(text)] = answer.translation
        self._report()
        return len(self._unsaved) >= _SAVE_AFTER

    @property
    def has_unsaved(self) -> bool:
        """True if the memory lacks translations."""
        return bool(self._unsaved)

    def save(self) -> None:
        """Add missing entries to the memory.

        Raises:
            ValueError: The memory is damaged.
        """
        if self._memory and self._unsaved:
            self._memory.add(self._unsaved)
            self._unsaved = {}

    def finish(self, *, sentences: int = 0) -> TranslatedTexts:
        """Return the translations.

        Args:
            sentences: Sentences that the translator has counted.
        """
        copies = self._copies.count
        summary = DocumentSummary(
            units=self._total,
            asked=len(self.pending),
            remembered=self._remembered_texts,
            characters=sum(map(len, self.pending)),
            sentences=sentences,
            refusals=tuple(self._refusals),
            passed_through=copies(Copied.UNSERVED_LANGUAGE),
            copied=copies(Copied.NOTHING_TO_TRANSLATE) + copies(Copied.IN_TARGET_LANGUAGE),
            in_target_language=copies(Copied.IN_TARGET_LANGUAGE),
        )
        return TranslatedTexts(translations=self._translations, summary=summary)

    def _remembered(self) -> dict[str, str]:
        if not (self._memory and self._key):
            return {}
        keys = {self._key(text): text for text in self._texts.places}
        found = {keys[key]: translation for key, translation in self._memory.find(list(keys)).items()}
        # Another document may have had the same text without an order of its placeholders.
        return {text: each for text, each in found.items() if self._fault(text, Answer(translation=each)) is None}

    def _fault(self, text: str, answer: Answer) -> str | None:
        if answer.lost_placeholders:
            return f"the translation lost the placeholder {answer.lost_placeholders[0]}"
        if not answer.translation.strip():
            return "the translation is empty"
        fault = tag_fault(text, answer.translation)
        if fault is None and text in self._ordered:
            fault = order_fault(text, answer.translation)
        return fault

    def _report(self) -> None:
        if self._on_progress:
            self._on_progress(self._done, self._total)
