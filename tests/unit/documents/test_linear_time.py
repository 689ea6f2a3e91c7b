"""Reading and writing a document takes time that is linear in its length, whatever it is made of."""

from __future__ import annotations

from functools import partial

import pytest
from hostile_texts import DOCUMENTS, document, superlinear, translate_document

from xuanzang.documents.formats.blocks import tag_fault


def superlinear_contents(name: str, size: int, cheap: float) -> list[str]:
    return superlinear(partial(translate_document, DOCUMENTS[name][0]), size, cheap=cheap, make=partial(document, name))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_document_takes_time_quadratic_in_its_length(name: str) -> None:
    size = 500 if name == "docx runs" else 1000  # nine characters of these are a run of XML
    assert superlinear_contents(name, size, cheap=0.004) == []


def test_no_check_of_a_translation_takes_time_quadratic_in_its_length() -> None:
    assert superlinear(lambda text: tag_fault(text, "a"), 1500, cheap=0.004) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_long_document_takes_time_quadratic_in_its_length(name: str) -> None:
    assert superlinear_contents(name, 6000 if name == "docx runs" else 25_000, cheap=0.05) == []
