"""Documents: files whose texts are translated while everything else in them stays as it is."""

from __future__ import annotations

from xuanzang.client.documents.document import DocumentError, Limits
from xuanzang.client.documents.job import DocumentSummary, DocumentTranslation, Refusal, TranslatedTexts
from xuanzang.client.documents.memory import TranslationMemory
from xuanzang.client.documents.opening import SUFFIXES, DocumentFile, DocumentTexts

__all__ = [
    "SUFFIXES",
    "DocumentError",
    "DocumentFile",
    "DocumentSummary",
    "DocumentTexts",
    "DocumentTranslation",
    "Limits",
    "Refusal",
    "TranslatedTexts",
    "TranslationMemory",
]
