"""The translation of a document, apart from the calls: what is to be asked, and what becomes of the answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xuanzang.client._errors import InvalidRequestError, TranslationError
from xuanzang.client._output import replaced_file
from xuanzang.client._values.offers import Model
from xuanzang.client._values.options import TranslateOptions
from xuanzang.client._values.results import FinishReason, StreamedTranslation, Translation
from xuanzang.client._values.usage import Usage
from xuanzang.client.documents.formats.blocks import tag_fault
from xuanzang.client.documents.keys import answered_by, key_function
from xuanzang.client.documents.memory import TranslationMemory
from xuanzang.client.documents.opening import DocumentTexts
from xuanzang.client.documents.placeholders import changed_placeholders

_SAVE_AFTER = 64  # translations

OnProgress = Callable[[int, int], None]
"""Receiver of the number of texts done and of all texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A text that has stayed as it was."""

    where: str
    """Place of its first occurrence in the document, such as "line 12"."""
    message: str
    """Reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSummary:
    """What was done for a document."""

    units: int
    """Texts in the document, equal ones counted as often as they occur."""
    asked: int
    """Different texts that the server was asked for."""
    remembered: int
    """Different texts found in the translation memory."""
    characters: int
    """Characters of the texts that the server was asked for."""
    sentences: int
    """Sentences of these texts, as the server counts them; 0 if it does not."""
    refusals: tuple[Refusal, ...]
    """Different texts without a translation."""
    passed_through: int = 0
    """Different texts in languages that no model translates, which have stayed as they were with
    `pass_through_unserved`."""
    copied: int = 0
    """Different texts with nothing to translate."""
    in_target_language: int = 0
    """Those of them that are in the target language already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentTranslation:
    """A translated document."""

    content: bytes
    """Content of the file."""
    summary: DocumentSummary
    """What was done."""

    def write(self, path: str | Path) -> None:
        """Write the file beside its place and move it there once it is whole.

        Args:
            path: File to write or replace.

        Raises:
            OSError: The file cannot be written.
        """
        with replaced_file(Path(path), report=logging.getLogger("xuanzang.client").warning) as output:
            output.buffer.write(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedTexts:
    """Translations of the texts of a document."""

    translations: Mapping[str, str]
    """Translations by text, without those of texts that stay as they are."""
    summary: DocumentSummary
    """What was done."""


def document_options(texts: DocumentTexts, options: TranslateOptions) -> TranslateOptions:
    """Return the options of the texts of a document; those of texts that are HTML, which have no details of tokens."""
    return {**options, "content_format": "html", "token_details": None} if texts.is_html else options


class Job:
    """The translation of one document.

    Args:
        texts: Texts of the document.
        models: Models of the server; needed with a memory only.
        options: Options of the translation.
        memory: Memory to look in and to add to; None: none.
        on_progress: Receiver of progress.

    Raises:
        ValueError: The memory is damaged.
    """

    def __init__(
        self,
        texts: DocumentTexts,
        models: Sequence[Model],
        options: Mapping[str, object],
        *,
        memory: TranslationMemory | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._texts = texts
        self._models, self._options = models, options
        self._memory = memory
        self._key = key_function(models, options) if memory else None
        self._on_progress = on_progress
        self._translations = self._remembered()
        self._remembered_texts = len(self._translations)
        self._unsaved: dict[bytes, str] = {}
        self._refusals: list[Refusal] = []
        self._sentences = 0
        self._passed_through = self._copied = self._in_target_language = 0
        self._total = sum(texts.counts.values())
        self._done = sum(self._texts.counts[text] for text in self._translations)
        self.pending = [text for text in self._texts.places if text not in self._translations]
        """Texts to ask for, each once, in the order of the document."""
        self._report()

    def count(self, usage: Usage) -> None:
        """Count what a call has used."""
        self._sentences += usage.sentences

    def record(self, text: str, result: Translation | TranslationError) -> bool:
        """Record the answer for a text.

        Args:
            text: Text.
            result: Its translation, or the error instead.

        Returns:
            Whether `save` is to be called.
        """
        self._done += self._texts.counts[text]
        fault = result.message if isinstance(result, TranslationError) else self._fault(text, result)
        if fault is not None:
            self._refusals.append(Refusal(where=self._texts.places[text], message=fault))
        elif isinstance(result, Translation):
            self._translations[text] = result.text
            reason = result.hypotheses[0].finish_reason
            self._passed_through += reason is FinishReason.UNSERVED_LANGUAGE
            self._copied += reason is FinishReason.COPIED
            self._in_target_language += reason is FinishReason.COPIED and bool(result.detected_language)
            if self._key and self._may_be_kept(result):
                self._unsaved[self._key(text)] = result.text
        self._report()
        return len(self._unsaved) >= _SAVE_AFTER

    @property
    def has_unsaved(self) -> bool:
        """Whether the memory lacks translations."""
        return bool(self._unsaved)

    def save(self) -> None:
        """Add to the memory what it lacks.

        Raises:
            ValueError: The memory is damaged.
        """
        if self._memory and self._unsaved:
            self._memory.add(self._unsaved)
            self._unsaved = {}

    def finish(self) -> TranslatedTexts:
        """Return the translations."""
        summary = DocumentSummary(
            units=self._total,
            asked=len(self.pending),
            remembered=self._remembered_texts,
            characters=sum(map(len, self.pending)),
            sentences=self._sentences,
            refusals=tuple(self._refusals),
            passed_through=self._passed_through,
            copied=self._copied,
            in_target_language=self._in_target_language,
        )
        return TranslatedTexts(translations=self._translations, summary=summary)

    def _remembered(self) -> dict[str, str]:
        if not (self._memory and self._key):
            return {}
        keys = {self._key(text): text for text in self._texts.places}
        return {keys[key]: translation for key, translation in self._memory.find(list(keys)).items()}

    def _may_be_kept(self, translation: Translation) -> bool:
        is_whole = all(each.finish_reason is not FinishReason.DEADLINE for each in translation.hypotheses)
        return is_whole and answered_by(self._models, self._options, translation)

    def _fault(self, text: str, translation: Translation) -> str | None:
        if not translation.text.strip():
            return "the translation is empty"
        if self._texts.is_html:
            return tag_fault(text, translation.text)
        return changed_placeholders(text, translation.text) if self._texts.guarded else None

    def _report(self) -> None:
        if self._on_progress:
            self._on_progress(self._done, self._total)


def needs_retry(item: StreamedTranslation) -> bool:
    """Whether a text is to be asked for once more: gRPC retries only whole calls."""
    return item.error is not None and item.error.retryable


def refusal(error: TranslationError) -> TranslationError:
    """Return the error of one text, which is left as it is; the others go on.

    Raises:
        TranslationError: It concerns the others as well.
    """
    if isinstance(error, InvalidRequestError) and all(each.field.startswith("content") for each in error.violations):
        return error
    raise error
