"""Reading and writing a document takes time that is linear in its length, whatever it is made of."""

from __future__ import annotations

from functools import partial

import pytest
from hostile_texts import DOCUMENTS, superlinear, translate_document

from xuanzang.documents.formats.blocks import tag_fault


def _work(name: str, text: str) -> None:
    suffix, make = DOCUMENTS[name]
    content = make(text)
    translate_document(suffix, content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_document_takes_time_quadratic_in_its_length(name: str) -> None:
    assert superlinear(partial(_work, name), 2000, cheap=0.015) == []


def test_no_check_of_a_translation_takes_time_quadratic_in_its_length() -> None:
    assert superlinear(lambda text: tag_fault(text, "a"), 3000, cheap=0.015) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_long_document_takes_time_quadratic_in_its_length(name: str) -> None:
    size = 10_000 if name == "docx runs" else 40_000  # nine characters of these are a run of XML
    assert superlinear(partial(_work, name), size, cheap=0.1) == []
