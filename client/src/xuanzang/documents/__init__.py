r"""Documents: files whose texts are translated while everything else in them is unchanged.

>>> from xuanzang.documents import DocumentFile
>>> file = DocumentFile.of(b"# a *b*\n\n```\nc\n```\n", suffix=".md")
>>> list(file.texts().places)
['a <g id="1">b</g>']
>>> file.written({'a <g id="1">b</g>': '<g id="1">B</g> A'})
b'# *B* A\n\n```\nc\n```\n'
"""

from __future__ import annotations

from xuanzang.documents.document import DocumentError, Limits
from xuanzang.documents.job import Answer, Copied, DocumentSummary, Job, KeyFunction, OnProgress, TranslatedTexts
from xuanzang.documents.memory import TranslationMemory
from xuanzang.documents.opening import SUFFIXES, DocumentFile, DocumentTexts, Refusal, WrittenFile

__all__ = [
    "SUFFIXES",
    "Answer",
    "Copied",
    "DocumentError",
    "DocumentFile",
    "DocumentSummary",
    "DocumentTexts",
    "Job",
    "KeyFunction",
    "Limits",
    "OnProgress",
    "Refusal",
    "TranslatedTexts",
    "TranslationMemory",
    "WrittenFile",
]
